"""Tests torch's threaded process group with what the harness adds to it."""

from __future__ import annotations

import unittest

import torch
import torch.distributed as dist

from harness.communication_call import Kind
from harness.outcomes import Status
from harness.ranks.threads.threaded_group import make_group
from suites.selftest.ranks.threads.running import on_group


class ThreadedGroupTest(unittest.TestCase):
    """The threaded backend's group: what torch's has, and what the harness adds to it."""

    def test_reduce(self) -> None:
        """Only the root of a reduce gets the result, under each operation; torch's group has no reduce."""

        def test(rank: int) -> None:
            for operation, expected in ((dist.ReduceOp.SUM, 3.0), (dist.ReduceOp.MAX, 2.0)):
                tensor = torch.tensor([rank + 1.0])
                dist.reduce(tensor, dst=1, op=operation)
                assert tensor.item() == (expected if rank == 1 else 1.0), (operation, tensor)

        for outcome in on_group(2, test):
            self.assertEqual(outcome.status, Status.PASSED, outcome.error)
            reduced = [c.signature.operation for c in outcome.calls if c.kind is Kind.COLLECTIVE]
            self.assertEqual(reduced, ["reduce"] * 2)

    def test_threaded_backend_elsewhere(self) -> None:
        """The threaded backend outside of a rank raises an error that says what is wrong."""
        with self.assertRaisesRegex(RuntimeError, "threads of a threaded test"):
            make_group(None, None)


if __name__ == "__main__":
    unittest.main()
