"""``distribute_module``: which parameters it lays how, and what goes in and out."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from suites.spmd.dtensor_base import RANKS, ROUNDED, Bodies, in_rank_modes
from suites.spmd.parallel_models import WIDTH, Mlp
from suites.spmd.sharding_model import cut, small_numbers

R, S = Replicate(), Shard


class Module(Bodies):
    """``distribute_module``."""

    def model(self):
        """A model that differs by rank, with a buffer, and a bias that is not trained."""
        torch.manual_seed(self.rank)
        model = Mlp()
        model.down.bias.requires_grad_(False)
        model.up.register_buffer("scale", torch.full((2,), 1.0 + self.rank))
        return model.to(self.device_type)

    def plain(self):
        """The same on rank 0, on each rank."""
        torch.manual_seed(0)
        return Mlp().to(self.device_type)

    @with_comms
    def test_by_default_all_is_whole(self):
        model = distribute_module(self.model(), self.mesh(RANKS))
        for name, parameter in self.plain().named_parameters():
            laid = model.get_parameter(name)
            self.assertEqual((laid.placements, laid.requires_grad), ((R,), name != "down.bias"), name)
            self.assertEqual(laid.to_local(), parameter, name)
        self.assertEqual(model.up.scale.placements, (R,))
        self.assertEqual(model.up.scale.to_local(), torch.ones(2, device=self.device_type))
        with self.assertRaisesRegex(RuntimeError, "only be called once"):
            distribute_module(model, self.mesh(RANKS))

    @with_comms
    def test_functions(self):
        """One lays some parameters, the rest is whole; others lay what comes in, and take what goes out."""
        mesh, rows, seen = self.mesh(RANKS), small_numbers(1, (8, WIDTH)) / 8, []

        def partition(name, module, mesh):
            seen.append(name)
            if name == "up":
                for key, parameter in list(module.named_parameters()):
                    module.register_parameter(key, nn.Parameter(distribute_tensor(parameter, mesh, [S(0)])))

        def enter(module, inputs, mesh):
            return tuple(DTensor.from_local(each, mesh, [S(0)]) for each in inputs)

        def leave(module, output, mesh):
            return output.full_tensor()

        with mesh:
            model = distribute_module(self.model(), partition_fn=partition, input_fn=enter, output_fn=leave)
        self.assertEqual(seen, ["", "up", "down"])
        self.assertEqual([each.placements for each in model.parameters()], [(S(0),), (S(0),), (R,), (R,)])
        own = self.tensor(cut(rows, self.rank, (RANKS,), [S(0)]))
        self.assertEqual(model(own), self.plain()(self.tensor(rows)), **ROUNDED)

    @with_comms
    def test_functions_of_other_arguments(self):
        mesh, rows = self.mesh(RANKS), self.tensor(small_numbers(1, (8, WIDTH)) / 8)

        def enter(inputs, mesh):
            return tuple(DTensor.from_local(each, mesh, [R]) for each in inputs)

        def leave(output, mesh):
            return output.to_local()

        with self.assertWarnsOnceRegex(FutureWarning):
            model = distribute_module(self.model(), mesh, input_fn=enter, output_fn=leave)
        self.assertEqual(model(rows), self.plain()(rows), **ROUNDED)
        for name in ("input_fn", "output_fn"):
            with self.assertRaisesRegex(ValueError, "3 arguments, but got 1"):
                distribute_module(self.model(), mesh, **{name: lambda only: only})


in_rank_modes(globals(), Module, modes=("OnPooledRanks",))

if __name__ == "__main__":
    run_tests()
