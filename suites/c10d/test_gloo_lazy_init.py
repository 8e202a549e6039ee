"""The same collectives where gloo connects ranks only when one has something for another.

The bodies are those of the modules that they are named by.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import psutil
import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d.base import await_keys, gloo_only, instantiate_world_sizes
from suites.c10d.test_barriers import Barriers
from suites.c10d.test_coalesced_collectives import CoalescedCollectives
from suites.c10d.test_collectives import InAnotherWay
from suites.c10d.test_point_to_point import PointToPoint
from suites.c10d.test_process_groups import LAZY_INIT
from suites.c10d.test_sparse_collectives import SparseCollectives
from suites.c10d.test_work_handles import WorkHandles


@gloo_only
class Lazily:
    """Makes the group connect late."""

    def setUpRank(self):
        environ = mock.patch.dict(os.environ, {LAZY_INIT: "1"})
        environ.start()
        self.addCleanup(environ.stop)
        super().setUpRank()


class LazyConnections(Lazily):
    """Who is connected, and when."""

    def meet(self, where):
        """Return when all ranks have come here; without the group."""
        self.board.set(f"{where}/{self.rank}", "here")
        await_keys(self.board, (f"{where}/{rank}" for rank in self.members))

    def check_connected(self, where, *by_rank):
        """Check how many connections each rank has when all have come here; and hold all until they have."""
        self.meet(f"{where} before")
        sockets = psutil.Process().net_connections("tcp")
        connected = sum(each.status == psutil.CONN_ESTABLISHED for each in sockets)
        self.assertEqual(connected, by_rank[self.rank])
        self.meet(f"{where} after")

    def test_connected_when_needed(self):
        self.check_connected("made", 0, 0, 0)
        tensor = torch.tensor([self.rank + 1.0])
        if self.rank == 0:
            dist.send(tensor, 1)
        elif self.rank == 1:
            dist.recv(tensor, 0)
            self.assertEqual(tensor.item(), 1.0)
        self.check_connected("sent", 1, 1, 0)
        dist.broadcast(tensor, 2)
        self.assertEqual(tensor.item(), 3.0)


class LazyCollectives(Lazily, InAnotherWay):
    """Every dense collective, each with a few cases, and each operation once."""


class LazyPointToPoint(Lazily, PointToPoint):
    """Messages.

    Of two ranks one connects and the other waits for it to; which is which depends on their ports. So an
    isend may itself wait until the receiver asks for the message, and a receiver that waits to hear that the
    sender has called isend may wait for ever.
    """

    test_isend_completes_when_received = None


class LazyCoalescedCollectives(Lazily, CoalescedCollectives):
    """Coalesced collectives."""


class LazySparseCollectives(Lazily, SparseCollectives):
    """Sparse all_reduce."""


class LazyBarriers(Lazily, Barriers):
    """Barriers."""


class LazyWorkHandles(Lazily, WorkHandles):
    """Handles."""


instantiate_world_sizes(
    globals(),
    LazyConnections,
    LazyCollectives,
    LazyPointToPoint,
    LazyCoalescedCollectives,
    LazySparseCollectives,
    LazyBarriers,
    LazyWorkHandles,
    sizes=(3,),
)


if __name__ == "__main__":
    run_tests()
