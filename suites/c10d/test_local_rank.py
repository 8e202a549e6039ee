"""``get_node_local_rank``: the launcher's LOCAL_RANK, the fallback, and which of them wins. No group."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch.distributed as dist

from harness import MultiProcessTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)

LOCAL_RANK = "LOCAL_RANK"


class LocalRankTest(MultiProcessTestCase):
    """Four ranks, each of which the environment tells its own local rank, or none."""

    # Each rank has an environment of its own, which threads have not.
    rank_modes = ("fresh", "pooled")
    world_size = 4

    def setUpRank(self):
        super().setUpRank()
        # Pooled ranks outlive the test, and a launcher above this process may have set it.
        environ = mock.patch.dict(os.environ)
        environ.start()
        self.addCleanup(environ.stop)
        os.environ.pop(LOCAL_RANK, None)

    def testWithoutEnv(self):
        with self.assertRaisesRegex(RuntimeError, LOCAL_RANK):
            dist.get_node_local_rank()

    def testWithoutEnvWithFallback(self):
        self.assertEqual(dist.get_node_local_rank(fallback_rank=2), 2)
        self.assertEqual(dist.get_node_local_rank(fallback_rank=self.rank + 5), self.rank + 5)

    def testNodeLocalRankOverridesFallback(self):
        os.environ[LOCAL_RANK] = str(self.rank)
        self.assertEqual(dist.get_node_local_rank(fallback_rank=123), self.rank)

    def testNodeLocalRank(self):
        os.environ[LOCAL_RANK] = str(self.rank)
        self.assertEqual(dist.get_node_local_rank(), self.rank)


if __name__ == "__main__":
    run_tests()
