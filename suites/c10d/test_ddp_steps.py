"""What DDP asks of its reducer, its logger and the group, call by call: as ``ddp_steps.txt`` has it.

Each section of that file has a program as its name. One process is rank 1 of 2 in a group of our own, which
tells what it is asked. A section that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import sys
import unittest
import warnings
from dataclasses import dataclass
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._dynamo  # DDP imports it when it is made
import torch.distributed as dist
from torch import nn
from torch._C._distributed_c10d import _create_work_from_future
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.nn.parallel import distributed as module

from harness import MultiProcessTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import check_sections
from suites.c10d.noting import Named

ACCEPTED = Path(__file__).with_name("ddp_steps.txt")
REFUSALS = (ValueError, RuntimeError, AssertionError, KeyError, TypeError, AttributeError)
HOOKS = module._BufferCommHookLocation


@dataclass
class Pair:
    """An output that is a dataclass."""

    first: torch.Tensor
    second: torch.Tensor


class Model(nn.Module):
    """Has a weight that is used, one that is not, two buffers, and gives its output in ways of its own."""

    def __init__(self, give=lambda out: out):
        super().__init__()
        self.used = nn.Parameter(torch.tensor([[1.0, 2.0], [3.0, 4.0]]))
        self.inner = nn.Linear(2, 1, bias=False)
        self.inner.weight = nn.Parameter(torch.tensor([[5.0, 6.0]]))
        self.register_buffer("shift", torch.tensor([7.0]))
        self.register_buffer("count", torch.tensor([8]))
        self.give = give

    def forward(self, rows, *, plus=0):
        return self.give(rows @ self.used + self.shift + plus)


class All(Model):
    """Uses its second weight, too."""

    def forward(self, rows, *, plus=0):
        return self.give(self.inner(rows @ self.used) + self.shift + plus)


def described(value):
    """A value in words: tensors by their numbers."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{value.flatten().tolist()}"
    if isinstance(value, set):
        return f"{sorted(value)}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(described(each) for each in value)}]"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {described(each)}' for name, each in value.items())}}}"
    if isinstance(value, dist.ProcessGroup):
        return f"group of {dist.get_process_group_ranks(value)}"
    if type(value).__name__.endswith("Options"):
        return str(value.reduceOp.op if hasattr(value, "reduceOp") else getattr(value, "rootRank", "options"))
    if isinstance(value, Pair):
        return f"pair of {described(value.first)} and {described(value.second)}"
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    if type(value) in (int, float, str, bool, type(None)):
        return repr(value)
    return type(value).__name__


class Other(Named):
    """Tells what it is asked for.

    The other rank has ones in each sum; but a sum of one number is what ``answers`` has next, or 0.
    """

    told: list[str]
    answers: list[float]

    def noted(self, name, args):
        # What is to be filled holds anything.
        self.told.append(
            f"group {self.size()}: {name} {described(args[1:] if name == 'allgather' else args)}"
        )
        if name == "allreduce":
            for tensor in args[0]:
                if tensor.numel() == 1:
                    tensor.fill_(self.answers.pop(0) if self.answers else 0)
                else:
                    tensor += 1
        elif name == "allgather":
            for copies, tensor in zip(*args[:2], strict=True):
                for each in copies:
                    each.copy_(tensor)
        done = torch.futures.Future()
        done.set_result(list(args[0]))
        return _create_work_from_future(done)


class Before:
    """Stands before an object and tells the calls of its methods."""

    def __init__(self, name, behind, told):
        self._name, self._behind, self._told = name, behind, told

    def __getattr__(self, method):
        def call(*args):
            if not method.startswith("_pybind11"):  # by which C++ asks for what it is to have
                self._told.append(f"{self._name}: {method} {described(args)}")
            return getattr(self._behind, method)(*args)

        return call


@unittest.skipUnless(torch_at_least("2.13"), "the steps are those of torch 2.13")
class DdpStepsTest(MultiProcessTestCase):
    """A program after another."""

    rank_modes = ("fresh",)  # some programs change settings of the compiler
    world_size = 1

    def setUpRank(self):
        super().setUpRank()
        self.told, self.answers = [], []
        dist.Backend.register_backend("other", self.create, devices=["cpu"])
        dist.init_process_group("other", store=dist.HashStore(), rank=1, world_size=2)

    def create(self, store, rank, size, timeout):
        group = Other(rank, size)
        group.told, group.answers = self.told, self.answers
        return group

    def built(self, model=None, **options):
        """A model in DDP; how it is made is told."""
        with mock.patch.object(module, "_sync_module_states", self.noting(module._sync_module_states)):
            return DDP(All() if model is None else model, **options)

    def wrap(self, model=None, **options):
        """A model in DDP, of which only what is called later is told."""
        ddp = self.built(model, **options)
        self.told.clear()
        if hasattr(ddp, "reducer"):
            ddp.reducer = Before("reducer", ddp.reducer, self.told)
            ddp.logger = Before("logger", ddp.logger, self.told)
        return ddp

    def noting(self, function):
        """A function whose keywords are told before it is called."""

        def call(**named):
            words = {key: value for key, value in named.items() if not isinstance(value, nn.Module | set)}
            self.told.append(f"{function.__name__} {described(words)}")
            return function(**named)

        return call

    def step(self, ddp, times=1, backward=True, **named):
        """Forward and, of the sum of what has a gradient, backward; tells what comes of each."""
        out = ddp(torch.tensor([[1.0, 10.0]]) * times, **named)
        makers = [type(each.grad_fn).__name__ for each in module._find_tensors(out)]
        self.told.append(f"out {described(out)} of {makers}")
        if backward:
            sum(each.sum() for each in module._find_tensors(out) if each.requires_grad).backward()
            gradients = {name: each.grad for name, each in ddp.module.named_parameters()}
            self.told.append(f"gradients {described(gradients)}")

    def state(self, ddp):
        """What is set of a wrapped model, in a line, and the tensors that it knows."""
        plain = (int, float, str, bool, set, tuple, type(None))
        fields = {name: value for name, value in sorted(vars(ddp).items()) if type(value) in plain}
        self.told.append(f"has {described(fields)}")
        for name in (
            "_module_parameters",
            "modules_buffers",
            "named_module_buffers",
            "bucket_bytes_cap_list",
        ):
            if hasattr(ddp, name):
                self.told.append(f"{name} {described(getattr(ddp, name))}")

    def answer(self, program):
        """What a program tells, how it is refused, and what it warns of."""
        self.told.clear()
        self.answers.clear()
        with warnings.catch_warnings(record=True) as warned, torch.enable_grad():
            warnings.simplefilter("always")
            try:
                exec(program, self.names())
            except REFUSALS as error:
                first, *_ = str(error).split("\n")
                self.told.append(f"{type(error).__name__}: {first}")
        return [*map(str, self.told), *(f"warns: {str(each.message).splitlines()[0]}" for each in warned)]

    def names(self):
        """What a program may name."""
        return {
            **{name: getattr(self, name) for name in ("told", "answers", "built", "wrap", "step", "state")},
            **{each.__name__: each for each in (All, Model, Pair, described)},
            "torch": torch,
            "dist": dist,
            "module": module,
            "DDP": DDP,
            "PRE": HOOKS.PRE_FORWARD,
            "POST": HOOKS.POST_FORWARD,
        }

    def test_programs(self):
        check_sections(self, ACCEPTED, self.answer)


if __name__ == "__main__":
    run_tests()
