"""What functions within FSDP and beside it give and refuse, one by one, as ``function_calls.txt`` has it.

Each section of that file has as its name what is called, in one process that is rank 7 of 12. Sharded models
reach few of the cases. A section that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import contextlib
import dataclasses
import io
import sys
import unittest
from collections import OrderedDict
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed import utils
from torch.distributed.algorithms.model_averaging import averagers, hierarchical_model_averager
from torch.distributed.algorithms.model_averaging import utils as averaging
from torch.distributed.fsdp import _common_utils, fully_shard
from torch.distributed.fsdp._fully_shard import _fsdp_api, _fsdp_common, _fsdp_init
from torch.nn.utils.rnn import pack_sequence

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import add_parts, check_sections
from suites.fake_world import world
from suites.spmd import dtensor_expressions

ACCEPTED = Path(__file__).with_name("function_calls.txt")
#: Tests that the calls are spread over.
PARTS = 2


class Pair(NamedTuple):
    """Two values with names."""

    one: object
    other: object


@dataclasses.dataclass
class Kept:
    """Two values of a dataclass, and one that is made of them."""

    one: object
    other: object = 3


@dataclasses.dataclass
class Made:
    """A dataclass that cannot be made again."""

    one: object
    other: object = dataclasses.field(default=3, init=False)

    def __init__(self):
        self.one = grown(2)


def grown(*shape, **how):
    """Ones that want a gradient."""
    return torch.ones(shape, requires_grad=True, **how)


def nested(depth):
    """A tensor in so many lists."""
    return grown(1) if depth == 0 else [nested(depth - 1)]


def printed(call):
    """What a call writes for a user, by its first line, and how it ends."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(io.StringIO()):
        try:
            ended = call()
        except (AssertionError, ValueError) as error:
            ended = f"{type(error).__name__}: {error}"
    return [*out.getvalue().splitlines()[:1], ended]


def model():
    """Two layers, of which the second has a buffer."""
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3), nn.ReLU()))


def named(module, modules):
    """The names of modules in one."""
    return [name for each in modules for name, known in module.named_modules() if known is each]


NAMES = {
    **dtensor_expressions.NAMES,
    **{each.__name__.rpartition(".")[2]: each for each in (_common_utils, averagers)},
    **{each.__name__.rpartition(".")[2]: each for each in (_fsdp_api, _fsdp_common, _fsdp_init)},
    **{
        each.__name__: each
        for each in (Pair, Kept, Made, grown, nested, printed, model, named, pack_sequence)
    },
    "hierarchical": hierarchical_model_averager.HierarchicalModelAverager,
    "fully_shard": fully_shard,
    "utils": utils,
    "averaging": averaging,
    "OrderedDict": OrderedDict,
    "thing": SimpleNamespace,
    "nn": nn,
    "torch": torch,
}


@unittest.skipUnless(torch_at_least("2.13"), "the functions are those of torch 2.13")
class FunctionCallsTest(TestCase):
    """A part of the table; the tests of the others are added below."""

    def check_part(self, part):
        with world():
            check_sections(
                self, ACCEPTED, lambda call: dtensor_expressions.lines_of(call, NAMES), part, PARTS
            )


add_parts(FunctionCallsTest, PARTS)

if __name__ == "__main__":
    run_tests()
