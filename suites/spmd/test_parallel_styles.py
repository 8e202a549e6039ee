"""Parallel styles beyond the usual two: what modules get and give, and options of those that cut layers.

Ranks hold different parameters before a style is applied, and different inputs where each has its own part.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard
from torch.distributed.tensor.parallel import (
    ColwiseParallel,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
    parallelize_module,
)

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from suites.spmd.dtensor_base import RANKS, ROUNDED, Communication, in_rank_modes
from suites.spmd.parallel_models import WIDTH, WORDS, Mlp
from suites.spmd.sharding_model import small_numbers
from suites.spmd.style_bodies import StyleBodies

R, P, S = Replicate(), Partial(), Shard
ROWS = (8, WIDTH)


class Recorder(nn.Module):
    """Gives back what it gets, and remembers it."""

    def forward(self, *args, **kwargs):
        self.args, self.kwargs = args, kwargs
        return (*args, *kwargs.values())


class Preparations(StyleBodies):
    """Modules that get, or give, tensors of other layouts than the code around them has."""

    @with_comms
    def test_inputs(self):
        """Those with a layout are moved; the others are left as they are, whatever they are."""
        rows = small_numbers(1, ROWS)
        for local in (False, True):
            style = PrepareModuleInput(
                input_layouts=(S(0), None, R),
                desired_input_layouts=(R, None, S(1)),
                use_local_output=local,
            )
            module = parallelize_module(Recorder(), self.mesh(RANKS), style)
            module(self.part(rows, S(0)), "word", self.tensor(rows))
            whole, word, columns = module.args
            self.assertEqual(word, "word")
            for found, placement in ((whole, R), (columns, S(1))):
                self.assertEqual(isinstance(found, DTensor), not local)
                if not local:
                    self.assertEqual(found.placements, (placement,))
                    found = found.to_local()
                self.assertEqual(found, self.part(rows, placement), str(placement))
            with self.assertRaisesRegex(ValueError, "same length"):
                module(self.part(rows, S(0)))

    @with_comms
    def test_one_input(self):
        """A layout by itself is that of the only input, which may be a DTensor already."""
        rows, mesh = small_numbers(1, ROWS), self.mesh(RANKS)
        style = PrepareModuleInput(input_layouts=S(1), desired_input_layouts=S(0))
        module = parallelize_module(Recorder(), mesh, style)
        for given in (self.part(rows, S(1)), self.spread(rows, mesh, S(1))):
            module(given)
            self.check_lies(module.args[0], rows, [S(0)], type(given).__name__)

    @with_comms
    def test_named_inputs(self):
        rows = small_numbers(1, ROWS)
        style = PrepareModuleInput(
            input_kwarg_layouts={"x": S(0), "y": S(0)}, desired_input_kwarg_layouts={"x": R, "y": S(0)}
        )
        module = parallelize_module(Recorder(), self.mesh(RANKS), style)
        own = self.part(rows, S(0))
        with Communication() as communication:
            module(own, x=own, y=own, z=own)
        self.assertEqual(communication.counts, {"all_gather_into_tensor": 1})
        self.assertEqual(list(module.kwargs), ["x", "y", "z"])
        self.check_lies(module.kwargs["x"], rows, [R], "x")
        self.check_lies(module.kwargs["y"], rows, [S(0)], "y")
        self.assertIs(module.kwargs["z"], own)
        self.assertIs(module.args[0], own)

    @with_comms
    def test_outputs(self):
        rows = small_numbers(1, ROWS)
        for local in (True, False):
            style = PrepareModuleOutput(
                output_layouts=(R, None, S(0)),
                desired_output_layouts=(S(1), None, S(0)),
                use_local_output=local,
            )
            module = parallelize_module(Recorder(), self.mesh(RANKS), style)
            columns, word, own = module(self.tensor(rows), "word", self.part(rows, S(0)))
            self.assertEqual(word, "word")
            for found, placement in ((columns, S(1)), (own, S(0))):
                self.assertEqual(isinstance(found, DTensor), not local)
                found = found if local else found.to_local()
                self.assertEqual(found, self.part(rows, placement), str(placement))
            with self.assertRaisesRegex(ValueError, "same length"):
                module(self.tensor(rows), "word")

    @with_comms
    def test_a_sum_of_outputs(self):
        """Ranks compute summands: their sum is cut, and each summand has the sum's gradient."""
        rows, mesh = small_numbers(1, ROWS), self.mesh(RANKS)
        style = PrepareModuleOutput(output_layouts=P, desired_output_layouts=S(0))
        module = parallelize_module(nn.Identity(), mesh, style)
        own = (self.tensor(rows) * (1 + self.rank)).requires_grad_()
        found = module(own)
        self.assertEqual(found, self.part(rows * 10, S(0)))
        weights = small_numbers(2, ROWS)
        (found * self.part(weights, S(0))).sum().backward()
        self.assertEqual(own.grad, self.tensor(weights))

    @with_comms
    def test_inputs_and_outputs(self):
        """Within the module the rows are whole, around it each rank has its own."""
        rows, weights = small_numbers(1, ROWS) / 8, small_numbers(2, ROWS)
        style = PrepareModuleInputOutput(
            input_layouts=S(0),
            desired_input_layouts=R,
            use_local_input=True,
            output_layouts=R,
            desired_output_layouts=S(0),
        )
        plain = self.seeded(Mlp, 3)
        module = parallelize_module(self.seeded(Mlp, 3), self.mesh(RANKS), style)
        own = self.part(rows, S(0)).requires_grad_()
        found = module(own)
        whole = self.tensor(rows).requires_grad_()
        expected = plain(whole)
        self.assertEqual(found, self.part(expected.detach().cpu().numpy(), S(0)), **ROUNDED)
        (expected * self.tensor(weights)).sum().backward()
        (found * self.part(weights, S(0))).sum().backward()
        self.assertEqual(own.grad, self.part(whole.grad.cpu().numpy(), S(0)), **ROUNDED)
        for (name, parameter), theirs in zip(plain.named_parameters(), module.parameters(), strict=True):
            self.assertEqual(theirs.grad, parameter.grad, name, **ROUNDED)

    def test_layouts_that_do_not_fit(self):
        for style, layouts in (
            (PrepareModuleInput, {"input_layouts": (R, R), "desired_input_layouts": (R,)}),
            (PrepareModuleInput, {"input_layouts": R}),
            (PrepareModuleInput, {"input_kwarg_layouts": {"x": R}}),
            (PrepareModuleOutput, {"output_layouts": (R, R), "desired_output_layouts": R}),
        ):
            with self.assertRaises(AssertionError, msg=str(layouts)):
                style(**layouts)


class Layers(StyleBodies):
    """Options of the styles that cut layers."""

    def check_layer(self, make, style, given, *, laid, placed, moves, took):
        """Check a parallel layer beside a whole one: parameters, output, gradients, number of collectives."""
        plain, layer = self.seeded(make, 0), parallelize_module(self.seeded(make), self.mesh(RANKS), style)
        self.assertEqual({name: each.placements[0] for name, each in layer.named_parameters()}, laid)
        expected = plain(self.tensor(given))
        weights = small_numbers(5, expected.shape)
        (expected * self.tensor(weights)).sum().backward()
        with Communication() as communication:
            found = layer(took)
        self.assertEqual(communication.counts.total(), moves)
        if isinstance(found, DTensor):
            self.assertEqual(found.placements, (placed,))
            found = found.to_local()
        self.assertEqual(found, self.part(expected.detach().cpu().numpy(), placed), **ROUNDED)
        (found * self.part(weights, placed)).sum().backward()
        for name, parameter in plain.named_parameters():
            theirs = layer.get_parameter(name)
            self.assertEqual(theirs.full_tensor(), parameter, name)
            self.assertEqual(theirs.grad.full_tensor(), parameter.grad, name, **ROUNDED)

    @with_comms
    def test_embedding_by_columns(self):
        words = torch.arange(6).reshape(2, 3) * 5 % WORDS
        for style, placed in (
            (ColwiseParallel(), S(2)),
            (ColwiseParallel(output_layouts=R), R),
            (ColwiseParallel(output_layouts=S(1), use_local_output=False), S(1)),
        ):
            self.check_layer(
                lambda: nn.Embedding(WORDS, WIDTH),
                style,
                words.numpy(),
                laid={"weight": S(1)},
                placed=placed,
                moves=0 if placed == S(2) else 1,
                took=words.to(self.device_type),
            )

    @with_comms
    def test_rows_without_a_bias(self):
        """The input may be whole on each rank: each cuts its own part of it."""
        rows = small_numbers(1, ROWS) / 8
        for took, style in (
            (self.tensor(rows), RowwiseParallel(input_layouts=R)),
            (self.part(rows, S(1)), RowwiseParallel()),
            (self.spread(rows, self.mesh(RANKS), S(1)), RowwiseParallel(use_local_output=False)),
        ):
            self.check_layer(
                lambda: nn.Linear(WIDTH, 6, bias=False),
                style,
                rows,
                laid={"weight": S(1)},
                placed=R,
                moves=1,
                took=took,
            )

    @with_comms
    def test_sequences(self):
        """Along another dimension, and back as plain tensors; what is cut otherwise is moved."""
        rows, mesh = small_numbers(1, (4, 8, WIDTH)) / 8, self.mesh(RANKS)
        for took, moves in (
            (self.part(rows, S(0)), 0),
            (self.spread(rows, mesh, S(0)), 0),
            (self.spread(rows, mesh, S(1)), 1),
        ):
            self.check_layer(
                lambda: nn.LayerNorm(WIDTH),
                SequenceParallel(sequence_dim=0, use_local_output=not isinstance(took, DTensor)),
                rows,
                laid={"weight": R, "bias": R},
                placed=S(0),
                moves=moves,
                took=took,
            )
        layer = parallelize_module(nn.LayerNorm(WIDTH).to(self.device_type), mesh, SequenceParallel())
        with self.assertRaisesRegex(ValueError, "to be a torch.Tensor or DTensor"):
            layer([1.0])

    @with_comms
    def test_frozen_parameters(self):
        for style in (ColwiseParallel(), RowwiseParallel()):
            layer = self.seeded(lambda: nn.Linear(WIDTH, WIDTH))
            layer.weight.requires_grad_(False)
            parallelize_module(layer, self.mesh(RANKS), style)
            self.assertEqual((layer.weight.requires_grad, layer.bias.requires_grad), (False, True))
        for style in (ColwiseParallel(), RowwiseParallel()):
            with self.assertRaisesRegex(NotImplementedError, "nn.Linear and nn.Embedding"):
                parallelize_module(nn.LayerNorm(WIDTH), self.mesh(RANKS), style)


in_rank_modes(globals(), Preparations, Layers, modes=("OnPooledRanks",))

if __name__ == "__main__":
    run_tests()
