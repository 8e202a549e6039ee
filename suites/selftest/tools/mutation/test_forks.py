"""Tests runs in forks: what passes without a mutant, what ranks and new Pythons have, what hangs or dies."""

from __future__ import annotations

import contextlib
import json
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.settings import EnvVar
from tools.mutation import forks, modules
from tools.mutation.attempts import Mutant, Outcome, Ran
from tools.mutation.forks import Forks, WarmProcessEnded

ROOT = Path(__file__).resolve().parents[4]
FILE = "suites/selftest/tools/planted/arithmetic.py"
SUMS = "suites.selftest.tools.planted.sums"
SINGLE, FRESH = f"{SUMS}.SingleTest", f"{SUMS}.FreshTest"
WRONG = Mutant(f"{FILE}:6.11-6.21:arithmetic:0", str(ROOT / FILE))
NEVER_DONE = Mutant(f"{FILE}:11.11-11.20:comparison:0", str(ROOT / FILE))
TIMEOUT_S = 10.0


class ForksTest(unittest.TestCase):
    """One warm process for all tests."""

    forks: Forks
    path: Path

    @classmethod
    def setUpClass(cls) -> None:
        stack = contextlib.ExitStack()
        cls.addClassCleanup(stack.close)
        cls.path = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        stack.enter_context(mock.patch.object(modules, "MUTATED", (FILE,)))
        stack.enter_context(mock.patch.object(modules, "root", lambda: ROOT))
        cls.forks = stack.enter_context(Forks(cls.path, {EnvVar.GRACE: "0.3"}))

    def failed(self, mutant: Mutant, *tests: str, timeout_s: float = TIMEOUT_S) -> tuple[str, str]:
        """The test that failed, and its words."""
        failed = self.forks.attempt(mutant, tests, timeout_s).failed
        assert failed is not None
        return failed.test, failed.words

    def test_passing(self) -> None:
        """What passes is tried once, also by another owner of the same directory; what fails, a few times."""
        tests = (f"{SINGLE}.test_value", f"{SINGLE}.test_gone", f"{FRESH}.test_ranks", "suites.nowhere.T.t")
        passing = self.forks.passing(tests, TIMEOUT_S)
        self.assertEqual(set(passing), {tests[0], tests[2]})
        kept = json.loads((self.path / forks.NAME).read_text(encoding="utf-8"))
        self.assertEqual((kept["passed"], kept["failed"]), (passing, {tests[1]: 1, tests[3]: 1}))
        with Forks(self.path, {}) as again:
            failed = Outcome(tuple(Ran(test, 1.0, "bad") for test in (tests[1], tests[3])))
            with mock.patch.object(again, "_attempt", return_value=failed) as attempt:
                for _ in range(forks.TRIES + 1):
                    self.assertEqual(again.passing(tests, TIMEOUT_S), passing)
            self.assertEqual(attempt.call_count, forks.TRIES - 1)

    def test_once_late(self) -> None:
        """A test that fails once, as load makes tests do, counts when it passes the next time."""
        test = f"{SINGLE}.test_value"
        with tempfile.TemporaryDirectory() as directory, Forks(Path(directory), {}) as other:
            said = [Outcome((Ran(test, 9.0, "not at its end after 9 s"),)), Outcome((Ran(test, 0.5),))]
            with mock.patch.object(other, "_attempt", side_effect=said):
                self.assertEqual(
                    [other.passing([test], 9.0) for _ in range(3)], [{}, {test: 0.5}, {test: 0.5}]
                )

    def test_wrong_everywhere(self) -> None:
        """In the fork, on its ranks, and in a Python that a test starts; not in the next fork."""
        for test in (f"{SINGLE}.test_value", f"{FRESH}.test_ranks", f"{SINGLE}.test_child"):
            with self.subTest(test):
                found, words = self.failed(WRONG, test)
                self.assertEqual(found, test)
                self.assertRegex(words, "AssertionError|ZeroDivisionError")
        self.assertEqual(set(self.forks.passing([f"{SINGLE}.test_one"], TIMEOUT_S)), {f"{SINGLE}.test_one"})

    def test_up_to_the_first_failure(self) -> None:
        """Tests without ranks run first; after a failure none."""
        tests = (f"{FRESH}.test_ranks", f"{SINGLE}.test_type", f"{SINGLE}.test_value", f"{SINGLE}.test_large")
        ran = self.forks.attempt(WRONG, tests, TIMEOUT_S).ran
        self.assertEqual([r.test for r in ran], [tests[1], tests[2]])

    def test_rank_that_dies(self) -> None:
        self.assertRegex(self.failed(WRONG, f"{FRESH}.test_dies")[1], "exit code 3|exited")

    def test_hang(self) -> None:
        """A test that does not end is ended, and the process lives on."""
        test = f"{SINGLE}.test_waits_until_done"
        found, words = self.failed(NEVER_DONE, test, timeout_s=0.5)
        self.assertEqual((found, words), (test, "not at its end after 0.5 s"))
        self.assertEqual(self.failed(WRONG, f"{SINGLE}.test_value")[0], f"{SINGLE}.test_value")

    def test_process_that_ended(self) -> None:
        """It is said, and the next attempt starts another one."""
        with tempfile.TemporaryDirectory() as directory, Forks(Path(directory), {}) as other:
            other.attempt(WRONG, (f"{SINGLE}.test_type",), TIMEOUT_S)
            assert other._control is not None
            other._control.send("no attempt")
            with self.assertRaises(WarmProcessEnded):
                other.attempt(WRONG, (f"{SINGLE}.test_value",), TIMEOUT_S)
            self.assertIsNotNone(other.attempt(WRONG, (f"{SINGLE}.test_value",), TIMEOUT_S).failed)
