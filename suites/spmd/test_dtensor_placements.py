"""Where results of operators on DTensors lie, of which nothing has to be moved.

A row says what an operator makes of each placement of its argument, on each dimension of a mesh for itself.
"""

from __future__ import annotations

import itertools
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.tensor import Partial, Replicate, Shard
from torch.nn import functional as F

from harness import load_tests, run_tests, with_comms  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.spmd.dtensor_base import ROUNDED, in_rank_modes
from suites.spmd.sharding_model import Pieces
from suites.spmd.test_dtensor_ops import OperatorBodies

R, P, S = Replicate(), Partial(), Shard
SHAPE = (8, 4)
#: What linear operators make of placements: nothing else.
KEPT = {R: R, S(0): S(0), S(1): S(1), P: P}
#: What others make of them.
CUT = {R: R, S(0): S(0), S(1): S(1)}
ROWS, COLUMNS = {R: R, S(0): S(0)}, {R: R, S(1): S(1)}

LINEAR = {
    "twice": lambda x: x * 2,
    "a half": lambda x: x / 2,
    "negative": lambda x: -x,
    "double": lambda x: x.double(),
    "sum with itself": lambda x: x + x,
    "difference": lambda x: x - x * 3,
}
POINTWISE = {
    "sin": torch.sin,
    "exp": torch.exp,
    "relu": torch.relu,
    "square": torch.square,
    "sqrt": torch.sqrt,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "log1p": torch.log1p,
    "abs": torch.abs,
    "erf": torch.erf,
    "floor": torch.floor,
    "sign": torch.sign,
    "reciprocal": torch.reciprocal,
    "isnan": torch.isnan,
    "gelu": F.gelu,
    "silu": F.silu,
    "clamp": lambda x: x.clamp(3, 9),
    "power": lambda x: x**3,
    "larger": lambda x: x > 5,
    "where": lambda x: torch.where(x > 5, x, -x),
    "one more": lambda x: x + 1,
    "product": lambda x: x * x,
    "masked_fill": lambda x: x.masked_fill(x > 5, 2.0),
    "lerp": lambda x: torch.lerp(x, x * 2, 0.25),
    "leaky_relu": lambda x: F.leaky_relu(x - 5, 0.1),
}
#: What moves dimensions about, with what becomes of each.
VIEWS = {
    "t": (lambda x: x.t(), {R: R, S(0): S(1), S(1): S(0), P: P}),
    "unsqueeze(0)": (lambda x: x.unsqueeze(0), {R: R, S(0): S(1), S(1): S(2), P: P}),
    "unsqueeze(-1)": (lambda x: x.unsqueeze(-1), KEPT),
    "expand": (lambda x: x.expand(3, 8, 4), {R: R, S(0): S(1), S(1): S(2), P: P}),
    "flatten": (lambda x: x.flatten(), {R: R, S(0): S(0), P: P}),
    "reshape": (lambda x: x.reshape(4, 2, 4), {R: R, S(0): S(0), S(1): S(2), P: P}),
    "unflatten": (lambda x: x.unflatten(1, (4, 1)), KEPT),
    "movedim": (lambda x: x.unsqueeze(0).movedim(0, 2), KEPT),
    "permute": (lambda x: x.unsqueeze(1).permute(2, 1, 0), {R: R, S(0): S(2), S(1): S(0), P: P}),
    "squeeze": (lambda x: x.unsqueeze(1).squeeze(1), KEPT),
    "select a row": (lambda x: x.select(0, 3), {R: R, S(1): S(0), P: P}),
    "select a column": (lambda x: x.select(1, -1), ROWS | {P: P}),
    "rows": (lambda x: x[2:5], COLUMNS | {P: P}),
    "columns": (lambda x: x.narrow(1, 1, 2), ROWS | {P: P}),
    "cat": (lambda x: torch.cat([x, x * 2], 0), COLUMNS | {P: P}),
    "stack": (lambda x: torch.stack([x, x * 2], 0), {R: R, S(0): S(1), S(1): S(2), P: P}),
}
REDUCTIONS = {
    "sum": (lambda x: x.sum(), {R: R, S(0): P, S(1): P, P: P}),
    "sum of columns": (lambda x: x.sum(0), {R: R, S(0): P, S(1): S(0), P: P}),
    "sum of rows": (lambda x: x.sum(-1, keepdim=True), {R: R, S(0): S(0), S(1): P, P: P}),
    "mean of rows": (lambda x: x.mean(1), {R: R, S(0): S(0), S(1): Partial("avg")}),
    "largest": (lambda x: x.amax(0), {R: R, S(0): Partial("max"), S(1): S(0)}),
    "least": (lambda x: x.amin(1), {R: R, S(0): S(0), S(1): Partial("min")}),
    "largest of all": (lambda x: x.max(), {R: R, S(0): Partial("max"), S(1): Partial("max")}),
    "softmax": (lambda x: x.softmax(1), ROWS),
    "log_softmax": (lambda x: x.log_softmax(0), COLUMNS),
    "cumsum": (lambda x: x.cumsum(0), COLUMNS),
    "sort": (lambda x: x.sort(1).values, ROWS),
    "topk": (lambda x: x.topk(2, 0).values, COLUMNS),
    "variance": (lambda x: x.var(1), ROWS),
    "layer_norm": (lambda x: F.layer_norm(x, (4,)), ROWS),
    "logsumexp": (lambda x: (x / 8).logsumexp(0), {R: R, S(1): S(0)}),
}


class Placements(OperatorBodies):
    """Each row on a mesh of two dimensions."""

    def check_row(self, name, operator, becomes, turn):
        """Check an operator on a mesh of two dimensions, by a pair of placements, another one each turn."""
        pairs = list(itertools.permutations(becomes, 2))
        pair = pairs[turn * 5 % len(pairs)]  # five has no part with their numbers, which are 2, 6 and 12
        self.check_one_layout(name, operator, (2, 2), pair, tuple(becomes[each] for each in pair))

    def check_one_layout(self, name, operator, mesh, placements, results):
        msg = f"{name} of {placements}"
        found = self.check_one(operator, [Pieces(mesh, SHAPE, placements)], msg, **ROUNDED)
        self.assertEqual(found, (results, {}), msg)

    @with_comms
    def test_linear(self):
        for turn, (name, operator) in enumerate(LINEAR.items()):
            self.check_row(name, operator, KEPT, turn)

    @with_comms
    def test_pointwise(self):
        """One pair of placements for each."""
        for (name, operator), pair in zip(POINTWISE.items(), itertools.cycle(itertools.permutations(CUT, 2))):
            self.check_one_layout(name, operator, (2, 2), pair, pair)

    @with_comms
    def test_views(self):
        for turn, (name, (operator, becomes)) in enumerate(VIEWS.items()):
            self.check_row(name, operator, becomes, turn)

    @unittest.skipUnless(torch_at_least("2.12"), "flip is not DTensor's before torch 2.12")
    @with_comms
    def test_reductions(self):
        for turn, (name, (operator, becomes)) in enumerate(REDUCTIONS.items()):
            self.check_row(name, operator, becomes, turn)


in_rank_modes(globals(), Placements, modes=("OnLocalTensors",))

if __name__ == "__main__":
    run_tests()
