"""Tests the recording of ranks whose test itself imports torch or DTensor, which their processes had not."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
import unittest
from pathlib import Path

import harness

# Where this process found the harness, for the processes it starts.
SEARCH_PATH = os.pathsep.join([str(Path(harness.__file__).parents[1]), *sys.path])

MODULE = """
import sys
from datetime import timedelta
from harness import MultiProcessTestCase

class T(MultiProcessTestCase):
    world_size = 2

    def test_1_history_and_placements(self):
        self.assertNotIn("torch", sys.modules)
        import torch
        import torch.distributed as dist
        from harness import recorded_communication
        self.assertEqual(recorded_communication().lines, ())
        store = dist.FileStore(self.file_name, 2)
        dist.init_process_group("gloo", store=store, rank=self.rank, world_size=2)
        dist.all_reduce(torch.ones(3))
        self.assertEqual(recorded_communication().counts, {"all_reduce": 1})
        self.assertNotIn("torch.distributed.tensor", sys.modules)
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.tensor import DTensor, Replicate, Shard
        made = DTensor.from_local(torch.ones(2, 2), init_device_mesh("cpu", (2,)), [Shard(0)])
        made.redistribute(placements=[Shard(1) if self.rank else Replicate()])

    def test_2_stuck(self):
        self.assertNotIn("torch", sys.modules)
        import torch.distributed as dist
        store = dist.FileStore(self.file_name, 2)
        store.set_timeout(timedelta(days=1))  # a wait that ends before the test's deadline is no deadlock
        if self.rank == 0:
            store.wait(["a key"])
"""


class ImportedByTheTestTest(unittest.TestCase):
    """A module that does not import torch, and tests that do."""

    def test_recorded(self) -> None:
        """The calls are there for the test to look at, and a hang is proven."""
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "test_it.py").write_text(textwrap.dedent(MODULE))
            done = subprocess.run(
                [sys.executable, "-m", "unittest", "test_it"],
                cwd=directory, env={**os.environ, "PYTHONPATH": SEARCH_PATH},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
            )  # fmt: skip
        self.assertIn("FAILED (errors=2)", done.stdout)
        self.assertIn("test_it.T.test_2_stuck: deadlocked", done.stdout)
        self.assertIn("cause: rank 0 waits in store.wait('a key')", done.stdout)
        self.assertIn("cause: rank 0 redistributes to (Replicate(),) in redistribute #1", done.stdout)
