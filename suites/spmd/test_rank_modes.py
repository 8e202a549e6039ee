"""One DTensor program in all rank modes: what every rank holds in the end is the same in each.

The other DTensor suites compare each mode with a reference; this one compares the modes with each other.
"""

from __future__ import annotations

import os
import sys
import tempfile
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from unittest import mock

import numpy as np
import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn import functional as F

from harness import TestCase, load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.launch import local
from suites.spmd.dtensor_base import MODES, RANKS, ROUNDED, Bodies, in_rank_modes
from suites.spmd.parallel_models import WIDTH, Mlp
from suites.spmd.sharding_model import Pieces, small_numbers

#: Where ranks leave what they hold, for the test that started them.
DIRECTORY = "SUITES_SPMD_RESULTS"


class Program(Bodies):
    """A program that leaves every rank's part of its results in a file."""

    @with_comms
    def program(self):
        """Moves, operators, a backward pass and random numbers. No test by itself: see RankModesTest."""
        results = {**self.moved(), **self.computed(), **self.learned()}
        self.init_manual_seed_for_rank()
        results["random"] = torch.rand(3)
        each = local.by_rank(results) or [(self.rank, results)]
        for rank, own in each:
            arrays = {name: tensor.detach().numpy() for name, tensor in own.items()}
            np.savez(Path(os.environ[DIRECTORY], f"{rank}.npz"), **arrays)

    def moved(self):
        """Uneven shards and parts of sums, moved over two dimensions; exact."""
        pairs = {
            "sums": ((Partial(), Partial()), (Shard(0), Shard(1))),
            "rows": ((Shard(0), Partial()), (Replicate(), Shard(0))),
            "columns": ((Shard(1), Shard(0)), (Shard(0), Shard(0))),
        }
        return {
            name: self.laid(Pieces((2, 2), (7, 5), before)).redistribute(placements=after).to_local()
            for name, (before, after) in pairs.items()
        }

    def computed(self):
        """A product and a softmax of it."""
        mesh = self.mesh(2, 2)
        one = self.spread(small_numbers(1, (7, 6)), mesh, Shard(0), Shard(1))
        other = self.spread(small_numbers(2, (6, 5)), mesh, Replicate(), Shard(0))
        product = one @ other
        whole = product.redistribute(placements=[Shard(0), Replicate()])
        return {"product": product.to_local(), "softmax": F.softmax(whole / 100, dim=-1).to_local()}

    def learned(self):
        """The gradients of a tensor-parallel model, as ranks hold them."""
        torch.manual_seed(5)
        layers = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        model = parallelize_module(Mlp(), self.mesh(RANKS), layers)
        rows = torch.arange(3.0 * WIDTH).reshape(3, WIDTH) / WIDTH
        model(rows).square().sum().backward()
        return {name: parameter.grad.to_local() for name, parameter in model.named_parameters()}


in_rank_modes(globals(), Program)


class RankModesTest(TestCase):
    """The program's results, compared between modes."""

    def results(self, mode):
        """Run the program in a mode; what each rank holds."""
        with tempfile.TemporaryDirectory() as directory:
            result = unittest.TestResult()
            with mock.patch.dict(os.environ, {DIRECTORY: directory}):
                globals()[f"Program{mode}Test"]("program").run(result)
            self.assertEqual([text for _, text in (*result.errors, *result.failures, *result.skipped)], [])
            return [dict(np.load(Path(directory, f"{rank}.npz"))) for rank in range(RANKS)]

    def test_equal(self):
        results = {mode: self.results(mode) for mode in MODES}
        fresh = results["OnFreshRanks"]
        for name in ("columns", "random"):
            self.assertEqual(len({own[name].tobytes() for own in fresh}), RANKS, "all ranks have their own")
        for mode, theirs in results.items():
            for rank in range(RANKS):
                place = f"{mode}, rank {rank}"
                self.assertEqual(theirs[rank], fresh[rank], place, **ROUNDED)
                for name in ("sums", "rows", "columns", "product", "random"):
                    self.assertTrue(np.array_equal(theirs[rank][name], fresh[rank][name]), f"{place}, {name}")


if __name__ == "__main__":
    run_tests()
