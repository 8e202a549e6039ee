"""Tests what the run of a mutant's tests says of it; whole trials are in ``../test_mutate.py``."""

from __future__ import annotations

import contextlib
import io
import tempfile
import unittest
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast
from unittest import mock

from tools import planted_run
from tools.mutation import trial
from tools.mutation.attempts import Mutant, Outcome, Ran
from tools.mutation.forks import Forks
from tools.mutation.line_map import LineMap
from tools.mutation.results import Result, Verdict
from tools.mutation.sites import Site
from tools.planted_run import Done

SITE = Site("a.py", (3, 0, 3, 9), "constant", 0, "f", 3)
TESTS = {f"m.C.t{n:02}": float(n) for n in range(40)}
MAP = LineMap("2.13", TESTS, {"a.py": {3: list(range(40))}})


class OneFork:
    """Stands for ``Forks``: ``failing`` fails under any mutant, what is in ``broken`` without one, too.

    ``late`` does not end in the given time, only in more; ``after`` fails where others ran before it. That
    those in ``gone`` are broken is known. With ``fixture``, no test begins: that of their class fails.
    """

    def __init__(
        self,
        *,
        failing: str = "",
        broken: Sequence[str] = (),
        gone: Sequence[str] = (),
        why_not: str = "",
        late: str = "",
        after: str = "",
        fixture: bool = False,
    ) -> None:
        self.failing, self.broken, self.why_not, self.late = failing, broken, why_not, late
        self.gone, self.after, self.fixture = gone, after, fixture
        self.timeout_s = 0.0
        self.ran: list[tuple[str, ...]] = []
        self.alone: list[str] = []

    def given_up(self, test: str) -> bool:
        """Whether it is in ``gone``."""
        return test in self.gone

    def passing(self, tests: Sequence[str], _: float) -> dict[str, float]:
        """Those that pass without a mutant, and their seconds."""
        self.alone += tests
        return {test: TESTS[test] for test in tests if test not in self.broken}

    def attempt(self, _: Mutant, tests: Sequence[str], timeout_s: float) -> Outcome:
        """What the tests come to, up to the first that fails."""
        self.ran.append(tuple(tests))
        if self.fixture:
            return Outcome((Ran("setUpClass (m.C)", 0.0, "bad"),), self.why_not)
        ran: list[Ran] = []
        for test in tests:
            late = test == self.late and timeout_s <= (self.timeout_s or timeout_s)
            bad = test in (self.failing, *self.broken) or (test == self.after and bool(ran))
            ran.append(Ran(test, 1.0, "bad" * bad + "not at its end after 1 s" * late))
            self.timeout_s = self.timeout_s or timeout_s
            if ran[-1].words:
                break
        return Outcome(tuple(ran), self.why_not)


class ForksTest(unittest.TestCase):
    """``Trials`` with forks."""

    def trials(self, one: OneFork) -> trial.Trials:
        """Trials that run nothing themselves."""
        return trial.Trials(MAP, Path("/nowhere"), "1", None, cast(Forks, one))

    def test_caught(self) -> None:
        """By the test that caught one before the sooner, as if it took half the time."""
        one = OneFork(failing="m.C.t20")
        trials = self.trials(one)
        for _ in range(2):
            result = trials.of(SITE)
            self.assertEqual(
                (result.verdict, result.tests, result.words), (Verdict.CAUGHT, ("m.C.t20",), "bad")
            )
        self.assertEqual([tests.index("m.C.t20") for tests in one.ran], [20, 0, 11, 0])
        self.assertEqual(one.alone, ["m.C.t20"] * 2)  # no other test is tried without a mutant

    def test_survivor(self) -> None:
        """What fails without a mutant is no test of it; nor is it run where that is known."""
        one = OneFork(failing="m.C.t01", broken=["m.C.t01", "m.C.t30"], gone=["m.C.t07"])
        result = self.trials(one).of(SITE)
        self.assertIs(result.verdict, Verdict.SURVIVED)
        self.assertEqual((len(result.tests), result.left_out), (37, 3))
        self.assertNotIn("m.C.t07", {test for tests in one.ran for test in tests})

    def test_failure_after_others(self) -> None:
        """A test that fails in a process where others ran, and not alone, has noticed nothing."""
        result = self.trials(OneFork(after="m.C.t05")).of(SITE)
        self.assertEqual((result.verdict, len(result.tests)), (Verdict.SURVIVED, 40))

    def test_fixture(self) -> None:
        """A class whose fixture fails has noticed the mutant if one of its tests passes without it."""
        result = self.trials(OneFork(fixture=True)).of(SITE)
        self.assertEqual((result.verdict, result.tests), (Verdict.CAUGHT, ("setUpClass (m.C)",)))
        with mock.patch.object(trial.Trials, "_in_runs") as in_runs:
            self.assertIs(
                self.trials(OneFork(fixture=True, broken=list(TESTS))).of(SITE), in_runs.return_value
            )

    def test_late(self) -> None:
        """A test that is late has more time, alone; the others run after it; one that still fails counts."""
        one = OneFork(late="m.C.t20")
        result = self.trials(one).of(SITE)
        self.assertEqual((result.verdict, len(result.tests)), (Verdict.SURVIVED, 40))
        self.assertEqual(one.ran[1], ("m.C.t20",))
        self.assertEqual(set(one.ran[0][:5]) & set(one.ran[2]), set())
        result = self.trials(OneFork(late="m.C.t20", failing="m.C.t20")).of(SITE)
        self.assertEqual((result.verdict, result.tests), (Verdict.CAUGHT, ("m.C.t20",)))

    def test_run_of_its_own(self) -> None:
        """A mutant that cannot be planted in a fork, or none of whose tests passes there."""
        for one in (OneFork(why_not="it runs at import"), OneFork(broken=list(TESTS))):
            with mock.patch.object(planted_run, "run", return_value=Done(None, "too long")) as run:
                with tempfile.TemporaryDirectory() as directory:
                    trials = replace(self.trials(one), directory=Path(directory))
                    self.assertEqual(trials.of(SITE).words, "the run was too long")
                run.assert_called_once()


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

    def test_tests_that_are_gone(self) -> None:
        """They are left out of this run and of those of later mutants, with a line for each."""
        gone = [Done(2, f"run_tests.py: error: 'm.C.t{n:02}': m has no 'C.t{n:02}'") for n in (1, 30)]
        with contextlib.redirect_stderr(io.StringIO()) as err:
            result = self.try_it(gone[0], Done(0, ""), gone[1], Done(0, ""))
        self.assertIs(result.verdict, Verdict.SURVIVED)
        self.assertEqual((len(result.tests), result.left_out), (38, 2))
        self.assertNotIn("m.C.t30", self.ran[-1])
        self.assertEqual(
            [line.split()[1] for line in err.getvalue().splitlines()], ["m.C.t01", "m.C.t30"], err.getvalue()
        )

    def test_none_is_left(self) -> None:
        with contextlib.redirect_stderr(io.StringIO()):
            result = self.try_it(Done(2, "'m.C.t00': m has no 'C.t00'"), most=1)
        self.assertIs(result.verdict, Verdict.NOT_EXECUTED)

    def test_not_executed(self) -> None:
        with tempfile.TemporaryDirectory() as directory:
            trials = trial.Trials(LineMap("2.13", {}, {}), Path(directory), "1", None)
            self.assertIs(trials.of(SITE).verdict, Verdict.NOT_EXECUTED)
