"""Ranks that compile at different times: one waits for another's compiler, or finds its work done already."""

from __future__ import annotations

import os
import sys
from datetime import timedelta
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._functorch.config as functorch_config
import torch._inductor.config as inductor_config
import torch.distributed as dist
from torch._dynamo.utils import counters

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.dynamo.base import DdpRanksTestCase


class TestAsymmetricCompilation(DdpRanksTestCase):
    """Two ranks of their own: a group that has timed out is broken, and inductor leaves threads behind."""

    rank_modes = ("fresh",)

    def test_asymmetric_compilation(self):
        # NCCL's timeout is extended while a rank compiles. Gloo's is not: the rank that waits gives up.
        group = dist.new_group(timeout=timedelta(seconds=1))
        store = dist.FileStore(f"{self.file_name}.board", self.world_size)
        x = torch.full((2,), float(self.rank))

        def slow(graph, inputs):
            store.wait(["rank 0 gave up"], timedelta(seconds=60))
            return graph.forward

        if self.rank == 0:
            with self.assertRaisesRegex(RuntimeError, "(?i)timed out"):
                dist.all_reduce(x, group=group)
            store.set("rank 0 gave up", "yes")
        else:
            self.assertEqual(torch.compile(lambda x: x + 1, backend=slow)(x), x + 1)

    def test_asymmetric_compilation_with_fx_cache(self):
        # The first rank compiles and the second one finds that in the cache, though each in its own process.
        inductor_config.fx_graph_cache = functorch_config.enable_autograd_cache = True
        with mock.patch.dict(os.environ, {"TORCHINDUCTOR_CACHE_DIR": f"{self.file_name}.cache"}):
            for turn in range(self.world_size):
                if turn == self.rank:
                    x = torch.full((8,), float(self.rank))
                    self.assertEqual(torch.compile(lambda x: (x + 1).sin())(x), (x + 1).sin())
                dist.barrier()
        asked = [counters["inductor"][f"fxgraph_cache_{answer}"] for answer in ("miss", "hit")]
        self.assertEqual(asked, [1, 0] if self.rank == 0 else [0, 1])


if __name__ == "__main__":
    run_tests()
