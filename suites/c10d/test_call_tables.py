"""What calls of ``torch.distributed`` ask, return, warn of and refuse: as ``calls.txt`` has it, by arguments.

One process is rank 1 of 3 in a group that only notes what it is asked. A section that is not as torch has it
is shown as it would have to be.
"""

from __future__ import annotations

import re
import sys
import unittest
import warnings
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed import ReduceOp
from torch.distributed import distributed_c10d as c10d

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import accepted_sections, check_section
from suites.c10d.call_expressions import EXPRESSIONS
from suites.c10d.noting import Handle, Noting, NotingTestCase, rows
from suites.told_programs import told_warnings

ACCEPTED = Path(__file__).with_name("calls.txt")
REFUSALS = (ValueError, RuntimeError, AssertionError, KeyError, TypeError, IndexError, AttributeError)
OPTIONS = ("reduceOp", "rootRank", "rootTensor", "asyncOp", "timeout", "device_ids", "device")
#: What differs from one process to another.
_PASSING = re.compile(r" at 0x[0-9a-f]+|0x[0-9a-f]+")


def described(value, names=()):
    """A value in words: a tensor that has a name by it, options by what is set of them."""
    if isinstance(value, torch.Tensor):
        for name, of in dict(names).items():
            for number, each in enumerate(of if isinstance(of, list) else [of]):
                if each is value:
                    return f"{name}{number}" if isinstance(of, list) else name
        kind = f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
        # What an object is as bytes, is Python's.
        return kind if value.dtype == torch.uint8 else f"{kind} {value.flatten().tolist()[:4]}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(described(each, names) for each in value)}]"
    if isinstance(value, dict):
        return str({str(name): described(each, names) for name, each in value.items()})
    if callable(value) and hasattr(value, "__qualname__"):
        return value.__qualname__
    if isinstance(value, ReduceOp):
        return str(value.op)
    if isinstance(value, Noting):
        return f"group {value.group_desc} {dist.get_process_group_ranks(value)}"
    if isinstance(value, Handle):
        return f"handle waited for {value.waits} times"
    if type(value).__name__.endswith("Options"):
        found = {name: getattr(value, name) for name in OPTIONS if hasattr(value, name)}
        limit = found["timeout"].total_seconds()
        words = [f"{name}={described(each)}" for name, each in found.items() if each not in (None, -1, [])]
        return " ".join(each for each in words if limit >= 0 or not each.startswith("timeout"))
    return _PASSING.sub("", f"{value!r}")


@unittest.skipUnless(torch_at_least("2.13"), "the calls are those of torch 2.13")
class CallTablesTest(NotingTestCase):
    """The world, a pair that has this rank, and one that has it not."""

    def setUpRank(self):
        super().setUpRank()
        self.sections = accepted_sections(ACCEPTED)
        self.pair = dist.new_group([1, 2], group_desc="pair", timeout=timedelta(seconds=7))
        self.others = dist.new_group([0, 2])
        self.world = self.group

    def names(self):
        """What an expression may name: modules, groups, tensors."""
        return {
            "dist": dist,
            "c10d": c10d,
            "torch": torch,
            "timedelta": timedelta,
            "op": ReduceOp,
            "world": self.world,
            "pair": self.pair,
            "others": self.others,
            "one": rows(),
            "two": [rows(), rows() + 10],
            "three": [rows() + number for number in range(3)],
            "more": [rows() + 10 * number for number in range(3)],
            "six": rows(6),
            "four": rows(4),
            "whole": rows(2, torch.int64),
            "complex": rows(2, torch.complex64),
            "sparse": rows().to_sparse(),
            "loose": torch.arange(8.0).reshape(2, 4)[:, ::2],
        }

    def answer(self, expression):
        """What comes of an expression, in lines."""
        for group in (self.world, self.pair):
            group.calls.clear()
        self.made.clear()
        names = self.names()
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            try:
                lines = [f"returns {described(eval(expression, names), names)}"]
            except REFUSALS as error:
                first = str(error).splitlines()[0] if str(error) else ""
                lines = [f"{type(error).__name__}: {_PASSING.sub('', first)}"]
        for name, group in (("world", self.world), ("pair", self.pair)):
            for asked, args in group.calls:
                lines.append(f"asks {name} for {asked} of {described(args, names)}")
            if group.calls and "handle" not in lines[0]:
                lines.append(f"waits {group.handle.waits}")
            elif group.calls:
                group.handle.wait()
        for group, rank, size, timeout in self.made:
            ranks = dist.get_process_group_ranks(group)
            lines.append(f"makes {rank} of {size}, {timeout}, {group.group_desc} {ranks}")
        return [*lines, *told_warnings(warned)]

    def test_calls(self):
        for expression in EXPRESSIONS:
            check_section(self, self.sections, expression, self.answer(expression))


if __name__ == "__main__":
    run_tests()
