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
from harness.ranks.local import rank as local
from harness.targets import current
from suites.spmd.dtensor_base import MODES, RANKS, ROUNDED, Bodies, in_rank_modes
from suites.spmd.parallel_models import WIDTH, Mlp
from suites.spmd.sharding_model import Pieces, cut, small_numbers

#: Where ranks leave what they hold, for the test that started them.
DIRECTORY = "SUITES_SPMD_RESULTS"
#: Uneven shards and parts of sums, by the name of the result: placements before and after.
MOVES = {
    "sums": ((Partial(), Partial()), (Shard(0), Shard(1))),
    "rows": ((Shard(0), Partial()), (Replicate(), Shard(0))),
    "columns": ((Shard(1), Shard(0)), (Shard(0), Shard(0))),
}

#: How the parameters of a tensor-parallel MLP lie.
LAID = {
    "up.weight": (Shard(0),),
    "up.bias": (Shard(0),),
    "down.weight": (Shard(1),),
    "down.bias": (Replicate(),),
}


def trained(parallel):
    """Return a small model, made parallel by ``parallel``, with gradients."""
    torch.manual_seed(5)
    model = parallel(Mlp())
    model((torch.arange(3.0 * WIDTH) / WIDTH).reshape(3, WIDTH)).square().sum().backward()
    return model


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
            arrays = {name: tensor.detach().cpu().numpy() for name, tensor in own.items()}
            np.savez(Path(os.environ[DIRECTORY], f"{rank}.npz"), **arrays)

    def moved(self):
        """What is moved over two dimensions; exact."""
        return {
            name: self.laid(Pieces((2, 2), (7, 5), before)).redistribute(placements=after).to_local()
            for name, (before, after) in MOVES.items()
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
        layers = {"up": ColwiseParallel(), "down": RowwiseParallel()}
        model = trained(lambda model: parallelize_module(model, self.mesh(RANKS), layers))
        return {name: parameter.grad.to_local() for name, parameter in model.named_parameters()}


in_rank_modes(globals(), Program, modes=MODES)


class RankModesTest(TestCase):
    """The program's results, compared between modes."""

    def results(self, mode):
        """Run the program in a mode; what each rank holds."""
        with tempfile.TemporaryDirectory() as directory:
            result = unittest.TestResult()
            with mock.patch.dict(os.environ, {DIRECTORY: directory}):
                globals()[f"Program{mode}Test"]("program").run(result)
            if result.skipped and current().device_type != "cpu":
                self.skipTest(result.skipped[0][1])  # four devices, say
            self.assertEqual([text for _, text in (*result.errors, *result.failures, *result.skipped)], [])
            return [dict(np.load(Path(directory, f"{rank}.npz"))) for rank in range(RANKS)]

    def check_by_reference(self, results):
        """Check what ranks hold with what the model of shards makes of results in one process."""
        wholes = {
            name: (Pieces((2, 2), (7, 5), before).whole, after) for name, (before, after) in MOVES.items()
        }
        product = small_numbers(1, (7, 6)) @ small_numbers(2, (6, 5))
        softmax = F.softmax(torch.from_numpy(product) / 100, dim=-1)
        wholes["softmax"] = (softmax.numpy(), (Shard(0), Replicate()))
        for name, parameter in trained(lambda model: model).named_parameters():
            wholes[name] = (parameter.grad.numpy(), LAID[name])
        for name, (whole, placements) in wholes.items():
            mesh_shape = (2, 2) if len(placements) == 2 else (RANKS,)
            for rank, own in enumerate(results):
                expected = cut(whole, rank, mesh_shape, placements)
                self.assertEqual(own[name], expected, f"{name}, rank {rank}", **ROUNDED)

    def test_equal(self):
        results = {mode: self.results(mode) for mode in MODES}
        fresh = results["OnFreshRanks"]
        for name in ("columns", "random"):
            self.assertEqual(len({own[name].tobytes() for own in fresh}), RANKS, "all ranks have their own")
        self.check_by_reference(fresh)
        for mode, theirs in results.items():
            for rank in range(RANKS):
                place = f"{mode}, rank {rank}"
                self.assertEqual(theirs[rank], fresh[rank], place, **ROUNDED)
                for name in ("sums", "rows", "columns", "product", "random"):
                    self.assertTrue(np.array_equal(theirs[rank][name], fresh[rank][name]), f"{place}, {name}")


if __name__ == "__main__":
    run_tests()
