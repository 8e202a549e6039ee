"""``TORCH_DISTRIBUTED_DEBUG=DETAIL``: ranks compare notes before each collective, and say what differs."""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.c10d.base import C10dTestCase, gloo_only

#: For a rank that never comes.
PATIENCE = timedelta(milliseconds=300)


@gloo_only
class DebugDetailTest(C10dTestCase):
    """Two ranks that do not do the same."""

    world_size = 2

    def setUpRank(self):
        self.addCleanup(dist.set_debug_level, dist.get_debug_level())
        dist.set_debug_level(dist.DebugLevel.DETAIL)
        super().setUpRank()

    def mismatch(self, *told):
        """Expect the refusal that quotes both ranks, and in it each of ``told``."""
        parts = "".join(f"(?=.*{each})" for each in told)
        return self.assertRaisesRegex(
            RuntimeError, f"(?s)Detected mismatch between collectives on ranks.*Rank {self.rank} {parts}"
        )

    def test_ranks_that_agree(self):
        tensor = torch.tensor([self.rank + 1.0, self.rank + 5.0])
        dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.tensor([3.0, 11.0]))
        parts = [torch.zeros(1) for _ in self.members]
        dist.all_gather(parts, torch.tensor([self.rank + 0.5]))
        self.assertEqual(parts, [torch.tensor([0.5]), torch.tensor([1.5])])

    def test_collective_mismatch(self):
        tensor = torch.ones(2)
        with self.mismatch("ALLREDUCE", "BROADCAST"):
            if self.rank == 0:
                dist.all_reduce(tensor)
            else:
                dist.broadcast(tensor, 0)
        self.assertEqual(tensor, torch.ones(2))
        self.check_group_works()

    def test_collective_shape_mismatch(self):
        # Without the comparison gloo sums what memory there is.
        tensor = torch.ones(2 + self.rank)
        with self.mismatch(r"TensorShape=\[2\]", r"TensorShape=\[3\]"):
            dist.all_reduce(tensor)
        self.assertEqual(tensor, torch.ones(2 + self.rank))
        self.check_group_works()

    def test_collective_dtype_mismatch(self):
        tensor = torch.ones(2, dtype=(torch.float32, torch.float64)[self.rank])
        with self.mismatch("Float", "Double"):
            dist.all_reduce(tensor)
        self.check_group_works()

    def test_rank_that_never_comes(self):
        # What the others hear is no time-out of theirs, but who is missing.
        group = dist.new_group(timeout=PATIENCE)
        if self.rank == 0:
            with self.assertRaisesRegex(RuntimeError, r"Ranks? 1 failed to pass monitoredBarrier"):
                dist.all_reduce(torch.ones(1), group=group)
            self.board.set("gave up", "")
        self.board.get("gave up")


if __name__ == "__main__":
    run_tests()
