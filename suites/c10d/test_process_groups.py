"""Process groups as such: how they are called, made, connected, timed, told of, and made again.

What their collectives do is in ``test_collectives`` and its siblings.
"""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import psutil
import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from harness import MultiProcessTestCase, TestCase, load_tests, run_tests  # noqa: F401  (unittest calls it)
from harness.targets import Capability, current, needs
from suites.c10d.base import COLLECTIVE_TIMEOUT, C10dTestCase, await_keys, gloo_only
from suites.target_device import OnTargetDevice

#: While it is set, a gloo group connects two ranks when one has something for the other, and not before.
LAZY_INIT = "TORCH_GLOO_LAZY_INIT"


class BackendNamesTest(TestCase):
    """What backends are called. No ranks."""

    def test_Backend_enum_class(self):
        for name in ("gloo", "GLOO", "GlOo"):
            self.assertEqual(dist.Backend(name), "gloo")
        self.assertEqual((dist.Backend.GLOO, dist.Backend.UNDEFINED), ("gloo", "undefined"))
        for wrong in (3, None, ["gloo"]):
            with self.subTest(name=wrong), self.assertRaisesRegex(ValueError, "must be string"):
                dist.Backend(wrong)

    def test_a_backend_that_nobody_has(self):
        with self.assertRaisesRegex(AssertionError, "(?i)unknown (c10d )?backend type nonesuch"):
            dist.init_process_group("cpu:nonesuch", store=dist.HashStore(), rank=0, world_size=1)
        self.assertFalse(dist.is_initialized())

    def test_a_device_that_no_group_is_bound_to(self):
        """A group is bound to an accelerator with a number, and never to the CPU."""
        for device in ("cpu", "cpu:0"):
            with self.subTest(device=device), self.assertRaisesRegex(ValueError, "must be an accelerator"):
                dist.init_process_group(
                    "gloo", store=dist.HashStore(), rank=0, world_size=1, device_id=torch.device(device)
                )
            self.assertFalse(dist.is_initialized())

    def test_default_backend_of_a_device(self):
        for device in ("cpu", torch.device("cpu")):
            self.assertEqual(dist.get_default_backend_for_device(device), "gloo")
        self.assertEqual(dist.get_default_backend_for_device("cuda:1"), "nccl")
        with self.assertRaisesRegex(ValueError, "not registered for device : meta"):
            dist.get_default_backend_for_device("meta")


class GlooGroupTest(C10dTestCase):
    """Three ranks."""

    world_size = 3

    def gloo(self, group=None):
        """Return the backend behind a group."""
        return (group or dist.group.WORLD)._get_backend(torch.device("cpu"))

    def connections(self):
        """Return how many connections this process has to others."""
        return sum(each.status == psutil.CONN_ESTABLISHED for each in psutil.Process().net_connections("tcp"))

    def meet(self, where):
        """Return when all ranks have come here; without the group."""
        self.board.set(f"{where}/{self.rank}", "here")
        await_keys(self.board, (f"{where}/{rank}" for rank in self.members))

    @needs(Capability.SUB_GROUPS)
    def test_get_backend(self):
        self.assertEqual((dist.get_backend(), dist.group.WORLD.name()), (self.backend, self.backend))
        self.assertEqual((dist.get_rank(), dist.get_world_size()), (self.rank, self.world_size))
        for ranks in ([1, 2], [0, 1, 2]):
            group = dist.new_group(ranks)
            if self.rank in ranks:
                self.assertEqual(dist.get_backend(group), self.backend)
                self.assertEqual(group.name(), self.backend)
            else:
                with self.assertRaisesRegex(ValueError, "Invalid process group specified"):
                    dist.get_backend(group)

    @gloo_only
    def test_set_gloo_pg_timeout(self):
        for backend in (None, "cpu:gloo"):  # of all devices, and of the CPU alone
            group = dist.new_group(timeout=timedelta(seconds=50), backend=backend)
            self.assertEqual(self.gloo(group).options._timeout, timedelta(seconds=50))
            c10d._set_pg_timeout(timedelta(seconds=23), group)
            self.assertEqual(self.gloo(group).options._timeout, timedelta(seconds=23))
        self.assertEqual(self.gloo().options._timeout, COLLECTIVE_TIMEOUT)
        # Of an accelerator's tensors alone: gloo takes them through the CPU's memory.
        group = dist.new_group(backend="cuda:gloo")
        c10d._set_pg_timeout(timedelta(seconds=23), group)
        options = group._get_backend(torch.device("cuda")).options
        self.assertEqual(options._timeout, timedelta(seconds=23))

    @gloo_only
    def test_timeout_that_is_set_counts(self):
        # The last rank stays away until the others have given up, which they would after a minute.
        group = dist.new_group()
        c10d._set_pg_timeout(timedelta(milliseconds=300), group)
        if self.rank != self.members[-1]:
            with self.assertRaisesRegex(RuntimeError, "Timed out waiting 300ms|Connection closed by peer"):
                dist.all_reduce(torch.ones(1), group=group)
        self.meet("gave up")
        self.check_group_works()

    @gloo_only
    def test_multi_device_constructor(self):
        # Over each of its devices the group connects all ranks, and takes them in turns.
        before = self.connections()
        options = dist.ProcessGroupGloo._Options()
        options._timeout = COLLECTIVE_TIMEOUT
        options._devices = [dist.ProcessGroupGloo.create_device(hostname=self.host_addr) for _ in range(2)]
        group = dist.ProcessGroupGloo(
            dist.PrefixStore("two devices", self.board), self.rank, self.world_size, options
        )
        self.meet("connected")
        self.assertEqual(self.connections() - before, 2 * (self.world_size - 1))
        for turn in range(4):
            tensor = torch.tensor([self.rank + 10.0**turn])
            group.allreduce([tensor]).wait()
            self.assertEqual(tensor.item(), sum(rank + 10.0**turn for rank in self.members))

    @gloo_only
    def test_connections(self):
        self.assertEqual(self.connections(), self.world_size - 1)
        with mock.patch.dict(os.environ, {LAZY_INIT: "1"}):
            group = dist.new_group()
        self.meet("made")
        self.assertEqual(self.connections(), self.world_size - 1)
        self.meet("counted")  # or one that is ahead connects to this one while it counts
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor, group=group)
        self.assertEqual(tensor.item(), 6.0)
        self.meet("reduced")
        self.assertGreater(self.connections(), self.world_size - 1)

    def test_made_again(self):
        for turn in range(2):
            dist.destroy_process_group()
            self.assertFalse(dist.is_initialized())
            with self.assertRaisesRegex(ValueError, "Default process group has not been initialized"):
                dist.all_reduce(torch.ones(1))
            store = dist.PrefixStore(f"again {turn}", self.board)
            dist.init_process_group(
                self.backend,
                store=store,
                rank=self.rank,
                world_size=self.world_size,
                timeout=COLLECTIVE_TIMEOUT,
            )
            self.check_group_works()

    def test_made_twice(self):
        with self.assertRaisesRegex(ValueError, "initialize the default process group twice"):
            dist.init_process_group(
                self.backend, store=self.board, rank=self.rank, world_size=self.world_size
            )
        self.check_group_works()

    @needs(Capability.SUB_GROUPS)
    def test_sub_groups_go_with_the_default_one(self):
        group = dist.new_group([0, 1])
        dist.destroy_process_group()
        self.assertFalse(dist.is_initialized())
        with self.assertRaisesRegex(ValueError, "not registered"):
            dist.get_group_rank(group, 0)

    @needs(Capability.SUB_GROUPS)
    def test_the_default_group_by_itself(self):
        """Destroyed as an argument it takes all groups along; one of the others goes alone."""
        others = [dist.new_group([0, 1, 2]) for _ in range(2)]
        dist.destroy_process_group(others[0])
        self.check_group_works()
        self.assertEqual(dist.get_process_group_ranks(others[1]), [0, 1, 2])
        with self.assertRaisesRegex(ValueError, "Invalid process group specified"):
            dist.destroy_process_group(others[0])
        dist.destroy_process_group(dist.group.WORLD)
        self.assertFalse(dist.is_initialized())
        with self.assertRaisesRegex(ValueError, "not registered"):
            dist.get_group_rank(others[1], 0)


class Told(dist.Store):
    """A store that is written in Python: it notes who calls what of it, and has a file's store do it."""

    def __init__(self, file):
        super().__init__()
        self.file, self.calls = file, set()

    def set(self, key, value):
        self.calls.add("set")
        self.file.set(key, value)

    def get(self, key):
        self.calls.add("get")
        return self.file.get(key)

    def add(self, key, amount):
        self.calls.add("add")
        return self.file.add(key, amount)

    def check(self, keys):
        self.calls.add("check")
        return self.file.check(keys)

    def wait(self, keys, timeout=COLLECTIVE_TIMEOUT):
        self.calls.add("wait")
        self.file.wait(keys, timeout)


class PythonStoreTest(OnTargetDevice, MultiProcessTestCase):
    """Two ranks whose store is Python."""

    world_size = 2

    def setUpRank(self):
        super().setUpRank()
        self.store = Told(dist.FileStore(self.file_name, self.world_size))

    def test_group_meets_in_it(self):
        dist.init_process_group(
            current().backend,
            store=self.store,
            rank=self.rank,
            world_size=self.world_size,
            timeout=COLLECTIVE_TIMEOUT,
        )
        if self.rank == 0:
            self.store.file.set("rank 0 starts", "")
        self.store.file.get("rank 0 starts")  # so that rank 1 comes late
        tensor = torch.tensor([self.rank + 1.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), 3.0)
        self.assertLessEqual({"set", "get"}, self.store.calls)

    def test_prefixes(self):
        # What C++ makes of it calls Python's methods.
        part = dist.PrefixStore(f"part {self.rank}", self.store)
        part.set("k", "v")
        self.assertEqual(self.store.file.get(f"part {self.rank}/k"), b"v")
        self.assertEqual((part.get("k"), part.add("n", 3), part.check(["n"])), (b"v", 3, True))
        self.assertFalse(part.has_extended_api())
        self.assertEqual(self.store.calls, {"set", "get", "add", "check"})


if __name__ == "__main__":
    run_tests()
