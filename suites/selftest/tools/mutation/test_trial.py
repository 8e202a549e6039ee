"""Tests what the run of a mutant's tests says of it; whole trials are in ``../test_mutate.py``."""

from __future__ import annotations

import tempfile
import unittest
from collections.abc import Sequence
from pathlib import Path
from unittest import mock

from tools import planted_run
from tools.mutation import trial
from tools.mutation.line_map import LineMap
from tools.mutation.results import Result, Verdict
from tools.mutation.sites import Site
from tools.planted_run import Done

SITE = Site("a.py", (3, 0, 3, 9), "constant", 0, "f", 3)
TESTS = {f"m.C.t{n:02}": float(n) for n in range(40)}
MAP = LineMap("2.13", TESTS, {"a.py": {3: list(range(40))}})


class TrialsTest(unittest.TestCase):
    """``Trials`` with runs that only say how they ended."""

    def try_it(self, *ends: Done, most: int | None = None) -> Result:
        """The result where runs end so, one after another; ``ran`` has their arguments afterwards."""
        self.ran: list[list[str]] = []
        left = list(ends)

        def run(arguments: Sequence[str], *_: object, **options: object) -> Done:
            self.ran.append([argument for argument in arguments if argument.startswith("m.")])
            return left.pop(0)

        with tempfile.TemporaryDirectory() as directory, mock.patch.object(planted_run, "run", run):
            result = trial.Trials(MAP, Path(directory), "1", most).of(SITE)
        self.assertEqual(left, [])
        return result

    def test_survivor(self) -> None:
        """All tests ran, the quickest first."""
        result = self.try_it(Done(0, ""), Done(0, ""))
        self.assertIs(result.verdict, Verdict.SURVIVED)
        self.assertEqual(self.ran, [list(TESTS)[: trial.FIRST], list(TESTS)[trial.FIRST :]])
        self.assertEqual(result.tests, tuple(TESTS))

    def test_at_most_so_many(self) -> None:
        result = self.try_it(Done(0, ""), most=3)
        self.assertEqual((result.tests, result.left_out), (("m.C.t00", "m.C.t01", "m.C.t02"), 37))

    def test_caught(self) -> None:
        """A run that takes too long, or in which torch cannot be imported, notices the mutant."""
        for end in (Done(None, "not at its end after 9 s"), Done(3, "torch does not import")):
            with self.subTest(end):
                result = self.try_it(end)
                self.assertIs(result.verdict, Verdict.CAUGHT)
                self.assertIn(end.words, result.words)

    def test_no_result(self) -> None:
        """A run that refuses its arguments says nothing of a mutant."""
        for code in (2, 5):
            with self.subTest(code), self.assertRaisesRegex(trial.TrialFailed, f"exit code {code}: words"):
                self.try_it(Done(code, "words"))

    def test_not_executed(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            trials = trial.Trials(LineMap("2.13", {}, {}), Path(directory), "1", None)
            self.assertIs(trials.of(SITE).verdict, Verdict.NOT_EXECUTED)
