"""Tests that a backend that does nothing has no capability; that backends have theirs is for ``test_cli``."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path
from unittest import mock

import torch
import torch.distributed as dist

from harness.target_draft.capability import Place, check, run
from harness.target_draft.tries import NOT_TRIED
from harness.targets import Capability

#: What a backend does not do, in the place of what users call.
NOTHING = (
    *("all_reduce", "all_gather", "all_gather_into_tensor", "all_gather_object", "all_reduce_coalesced"),
    *("all_to_all_single", "broadcast_object_list", "send", "recv", "isend", "irecv", "batch_isend_irecv"),
    *("new_group", "split_group", "get_backend", "P2POp"),
)
# These compare nothing but whether the call comes back, need ranks, or start the profiler in this process.
WITHOUT_RESULT = {
    *(*NOT_TRIED, Capability.BARRIER, Capability.MONITORED_BARRIER, Capability.COALESCING),
    *(Capability.FUNCTIONAL, Capability.DDP, Capability.BUILTIN_COMM_HOOKS, Capability.PROFILING),
}


class CapabilityTest(unittest.TestCase):
    """``run``: a capability is tried."""

    def place(self, rank: int) -> Place:
        """Returns the place of a rank that is alone."""
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        return Place(rank, torch.device("cpu"), dist.FileStore(str(Path(directory.name, "store")), 1))

    def test_nothing_is_wrong(self) -> None:
        """Where calls return and do nothing, every capability with a result is found wrong."""
        for each in set(Capability) - WITHOUT_RESULT:
            # A call that never comes is the other rank's in this one.
            rank = 0 if each is Capability.TIMEOUTS else 1
            nothing = mock.patch.multiple(dist, **dict.fromkeys(NOTHING, mock.DEFAULT))
            with self.subTest(each.name), nothing, self.assertRaises(AssertionError):
                run(each.name, self.place(rank))

    def test_check(self) -> None:
        """Tensors are compared by their numbers, everything else as it is."""
        check(torch.ones(2), torch.ones(2, dtype=torch.int64), "ones")
        check([1], [1], "lists")
        with self.assertRaisesRegex(AssertionError, r"sum: \[1.0, 1.0\], and \[2.0, 2.0\] is right"):
            check(torch.ones(2), torch.full((2,), 2.0), "sum")


if __name__ == "__main__":
    unittest.main()
