"""Tests that tools/faulty_targets.py finds cells that are missed or stray, and some faults for real."""

from __future__ import annotations

import os
import unittest
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from harness.conformance.document import Conformance
from harness.conformance.matrix import Cell, Matrix, State
from suites.selftest import warm_python
from suites.selftest.runner.runs import PATIENCE_S
from suites.targets.faulty import Fault
from suites.targets.python_group import PythonGroup
from tools import faulty_targets
from tools.faulty_targets import judged, text

FAULT = Fault("no_sum", PythonGroup, lambda name, at: name == "all_reduce" and at["reduction"] == "sum")
# Tests that run: each of the faults below concerns one of them, and none concerns the last.
TESTS = ("test_broadcast", "test_scatter", "test_all_reduce_sum", "test_all_gather")
TREE = Path(faulty_targets.__file__).resolve().parents[1]
TOOL = str(TREE / "tools" / "faulty_targets.py")
# The tool with a fault of which other cells are expected to be red.
WRONG = """
import sys
from suites.targets import faulty
from suites.targets.faulty import Fault
from suites.targets.python_group import PythonGroup
from tools import faulty_targets
other = next(each for each in faulty.FAULTS if each.name == "all_gather_reversed")
faulty.FAULTS = (Fault("scatter_shifted", PythonGroup, other.reddens),)
sys.exit(faulty_targets.main(sys.argv[1:]))
"""
# What the right backend does: cells by name and reduction.
RIGHT = (("all_reduce", "sum"), ("all_reduce", "max"), ("reduce", "sum"))


def report(*states: State | None, tests: State = State.RIGHT) -> Conformance:
    """Returns a report with a state for each of ``RIGHT``, None for a cell that is not there."""
    cells = tuple(
        Cell("c10d", name, (("reduction", reduction),), state, test=f"test_{name}")
        for (name, reduction), state in zip(RIGHT, states, strict=True)
        if state is not None
    )
    names = ("test_all_reduce", "test_large")
    whole = tuple(Cell("c10d", name, (), tests, test=name) for name in names)
    return Conformance("mine", {}, Matrix(whole, cells))


class JudgedTest(unittest.TestCase):
    """``judged``: which cells are red, missed and stray."""

    def test_table(self) -> None:
        """Only the cells of the fault may be bad, and all of them must be."""
        right = report(State.RIGHT, State.RIGHT, State.RIGHT)
        for what, found, expected in (
            ("right cells", report(State.WRONG, State.RIGHT, State.RIGHT), (1, 0, 0, True)),
            ("refused is red too", report(State.REFUSED, State.RIGHT, State.RIGHT), (1, 0, 0, True)),
            ("missed", report(State.RIGHT, State.RIGHT, State.RIGHT), (0, 1, 0, False)),
            ("stray", report(State.WRONG, State.WRONG, State.RIGHT), (1, 0, 1, False)),
            ("another not reached", report(State.WRONG, State.RIGHT, None), (1, 0, 1, False)),
            ("not reached, and its test passes", report(None, State.RIGHT, State.RIGHT), (0, 1, 0, False)),
            (
                "not reached, and its test fails",
                report(None, State.RIGHT, State.RIGHT, tests=State.HUNG),
                (0, 0, 0, False),
            ),
        ):
            with self.subTest(what):
                verdict = judged(FAULT, right, found)
                numbers = (len(verdict.red), len(verdict.missed), len(verdict.stray), verdict.good)
                self.assertEqual(numbers, expected)

    def test_uncertain(self) -> None:
        """Of a fault that may be in time for some cells, one that is right is not missed; one must be red."""
        fault = replace(FAULT, reddens=lambda name, at: name == "all_reduce", certain=False)
        right = report(State.RIGHT, State.RIGHT, State.RIGHT)
        self.assertTrue(judged(fault, right, report(State.WRONG, State.RIGHT, State.RIGHT)).good)
        self.assertFalse(judged(fault, right, right).good)

    def test_text(self) -> None:
        """The lines name what is missed and stray, and count the tests that name no cell."""
        right = report(State.RIGHT, State.RIGHT, State.RIGHT)
        found = report(State.RIGHT, State.HUNG, State.RIGHT, tests=State.WRONG)
        lines = text(judged(FAULT, right, found)).splitlines()
        self.assertIn("0 cells red, 1 missed, 1 stray; 2 tests without cells fail too", lines[0])
        self.assertIn("missed: c10d all_reduce (reduction=sum)", lines[1])
        self.assertIn("stray: c10d all_reduce (reduction=max): hung", lines[2])


class SampleTest(unittest.TestCase):
    """A few tests of the suite on the right backend, and on some with a fault."""

    def run_tool(self, start: Sequence[str], *arguments: str) -> tuple[int, str]:
        """Runs the tool with a choice of tests; returns the exit code and what was printed."""
        tests = [f"-k=.CollectivesWorldSize2Test.{name}" for name in TESTS]
        done = warm_python.run(
            (*start, "--module=suites.c10d.test_collectives", *(arguments or tests)),
            cwd=TREE,
            env={**os.environ, "PYTHONPATH": str(TREE)},
            timeout=PATIENCE_S,
        )
        return done.returncode, done.stdout

    def test_right_cells(self) -> None:
        """The cells of each fault are red, and no others."""
        faults = ("broadcast_from_next_rank", "scatter_shifted", "all_reduce_averages")
        code, said = self.run_tool((TOOL, *faults))
        self.assertEqual(code, 0, said)
        self.assertIn("3 of 3 faults redden the right cells and no others", said)

    def test_wrong_expectation(self) -> None:
        """Cells that should be red and are right are told, and cells that are red and should not be."""
        code, said = self.run_tool(("-c", WRONG, "scatter_shifted"))
        self.assertEqual(code, 1, said)
        self.assertRegex(said, "missed: c10d all_gather .*\n(.*\n)*.*stray: c10d scatter .*: wrong")

    def test_run_without_cells(self) -> None:
        """A run that says nothing about the right backend is exit code 3."""
        code, said = self.run_tool((TOOL,), "-k=no such test")
        self.assertEqual(code, 3, said)


if __name__ == "__main__":
    unittest.main()
