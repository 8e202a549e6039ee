"""A test for each kind of failure; tools/failure_reports.py runs them and keeps what they print."""

import os
import signal
import subprocess
import time

import torch
import torch.distributed as dist

from harness import DistributedTestBase, run_tests, timeout


class Reports(DistributedTestBase):
    world_size = 2

    def setUp(self):
        self.answer = [42]
        super().setUp()

    def setUpRank(self):
        self.create_pg("cpu")
        self.tensor = torch.ones(4) * (self.rank + 1)

    def test_assertion(self):
        if self.rank == 0:
            dist.all_reduce(self.tensor)
        self.assertEqual(self.tensor, torch.full((4,), 3.0))

    def test_exception(self):
        shards = {0: self.tensor}
        dist.all_reduce(shards[self.rank])

    def test_crash(self):
        dist.barrier()
        if self.rank == 1:
            os.kill(os.getpid(), signal.SIGSEGV)
        dist.all_reduce(self.tensor)

    def test_exit(self):
        dist.all_reduce(self.tensor)
        if self.rank == 1:
            os._exit(0)

    def test_deadlock(self):
        dist.all_reduce(self.tensor)
        if self.rank == 0:
            dist.broadcast(self.tensor, 0)
        else:
            dist.all_reduce(self.tensor)

    def test_left(self):
        steps = 3 if self.rank == 0 else 2
        for _ in range(steps):
            dist.all_reduce(self.tensor)

    def test_arguments(self):
        dist.all_reduce(self.tensor, dist.ReduceOp.MAX if self.rank == 1 else dist.ReduceOp.SUM)

    @timeout(3)
    def test_timeout(self):
        if self.rank == 1:
            time.sleep(3600)
        dist.all_reduce(self.tensor)

    def test_skip(self):
        if self.rank == 1:
            self.skipTest("needs a device with an even number")

    def test_subtest(self):
        for op in ("SUM", "MAX"):
            with self.subTest(op=op):
                tensor = self.tensor.clone()
                dist.all_reduce(tensor, getattr(dist.ReduceOp, op))
                self.assertEqual(tensor, torch.full((4,), 3.0))

    def test_cleanup(self):
        dist.all_reduce(self.tensor)
        self.addCleanup(os.remove, f"checkpoint-{self.rank}.pt")

    def test_parent(self):
        dist.all_reduce(self.tensor)
        self.assertEqual(self.answer, [42])

    def test_orphan(self):
        dist.all_reduce(self.tensor)
        if self.rank == 1:
            subprocess.Popen(["sleep", "3600"])


if __name__ == "__main__":
    run_tests()
