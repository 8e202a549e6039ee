"""What functions within AOTAutograd give and refuse, called one by one, as ``calls.txt`` has it.

Programs reach few of their cases: most refusals are of what no caller does as yet. A section is a call; one
that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import inspect
import re
import sys
import unittest
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import fx

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.aot import (
    call_expressions,
    called,
    called_captures,
    called_graphs,
    called_joints,
    called_passes,
    called_programs,
    called_stages,
    called_wrappers,
    capture_call_expressions,
    graph_call_expressions,
    joint_call_expressions,
    program_call_expressions,
    wrapper_call_expressions,
    wrapper_source_expressions,
)
from suites.aot.decisions import kind
from suites.aot.table_case import TableCase
from suites.aot.wrappers import REFUSALS, text

_PASSING = re.compile(r" at 0x[0-9a-f]+|<locals>\.")
_REFUSED = (*REFUSALS, KeyError, StopIteration, called_graphs.autograd_cache.BypassAOTAutogradCache)


def described(value):
    """What a call has given."""
    if isinstance(value, torch.Tensor):
        return kind(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(described, value))}]"
    if isinstance(value, fx.Node | slice | frozenset) or value is None:
        return str(value)
    if inspect.isroutine(value):
        return value.__name__
    if isinstance(value, dict):
        return f"{{{', '.join(f'{name}: {described(each)}' for name, each in value.items())}}}"
    return text(value)


_NAMES = {
    **called_captures.NAMES,
    **called.NAMES,
    **called_graphs.NAMES,
    **called_joints.NAMES,
    **called_passes.NAMES,
    **called_programs.NAMES,
    **called_stages.NAMES,
    **called_wrappers.NAMES,
}


def answer(expression):
    """What comes of a call, in lines."""
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        try:
            lines = described(eval(expression, dict(_NAMES))).splitlines() or [""]
        except _REFUSED as error:
            lines = [f"{type(error).__name__}: {' '.join(str(error).split())[:400]}".rstrip()]
    lines += [f"warns: {str(each.message).splitlines()[0][:80].rstrip()}" for each in warned]
    return [_PASSING.sub("", line) for line in lines]


@unittest.skipUnless(torch_at_least("2.13"), "the functions are those of torch 2.13")
class CallsTest(TableCase):
    """A group of expressions after another."""

    accepted = Path(__file__).with_name("calls.txt")

    def check_all(self, expressions):
        for expression in expressions:
            self.check(expression, answer(expression))

    def test_functional_tensors(self):
        self.check_all(call_expressions.FUNCTIONAL)

    def test_values(self):
        self.check_all(call_expressions.VALUES)

    def test_subclasses(self):
        self.check_all(call_expressions.SUBCLASSES)

    def test_graphs_to_cache(self):
        self.check_all(graph_call_expressions.CACHED)

    def test_graphs_to_partition(self):
        self.check_all(graph_call_expressions.PARTITIONED)

    def test_captured_graphs(self):
        self.check_all(graph_call_expressions.CAPTURED)

    def test_sources_of_wrappers(self):
        self.check_all(wrapper_source_expressions.SOURCES)

    def test_records_of_inputs(self):
        self.check_all(wrapper_call_expressions.RECORDS)

    def test_before_and_after_graphs(self):
        self.check_all(wrapper_call_expressions.FIRST)

    def test_cuts_of_joint_graphs(self):
        self.check_all(joint_call_expressions.CUT)

    def test_parts_of_joint_graphs(self):
        self.check_all(joint_call_expressions.PARTS)

    def test_captures(self):
        self.check_all(capture_call_expressions.CAPTURES)

    def test_records_of_sizes_and_views(self):
        self.check_all(capture_call_expressions.RECORDED)

    def test_passes(self):
        self.check_all(capture_call_expressions.PASSES)

    def test_what_is_found_of_programs(self):
        self.check_all(program_call_expressions.FOUND)

    def test_steps_around_graphs(self):
        self.check_all(program_call_expressions.STEPS)

    def test_stages_of_compilations(self):
        self.check_all(program_call_expressions.STAGES)


if __name__ == "__main__":
    run_tests()
