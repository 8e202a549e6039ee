"""Runs a faulty case in this process on one of the launchers and holds what became of it."""

from __future__ import annotations

import contextlib
import os
import unittest
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, TypeAlias
from unittest import mock

from harness import MultiProcessTestCase, MultiThreadedTestCase, RankOutcome, Status, TestOutcome
from suites.selftest.faults.clean import CleanTestCase
from suites.selftest.faults.forked_interpreters import forked_interpreters

# Settings of these tests, in seconds. They are long, so that no rank is ended that is merely slow to start; a
# test whose ranks all come back waits for none of them.
PATIENT = {
    "HARNESS_TIMEOUT": "300",
    "HARNESS_GRACE": "120",
    "HARNESS_SKIP_GRACE": "120",
    "HARNESS_EXIT_GRACE": "120",
    "HARNESS_STRICT": "0",
    "HARNESS_LOG_DIR": "",
    "HARNESS_RANK_OUTPUT": "capture",
    "HARNESS_WORKER": "",
}
# For tests with ranks that never come back, once all of them have come to where they wait.
IMPATIENT = {"HARNESS_GRACE": "0.3", "HARNESS_SKIP_GRACE": "0.3"}

# A case whose ranks are processes, or threads.
RankCase: TypeAlias = MultiProcessTestCase | MultiThreadedTestCase


@dataclass(frozen=True, slots=True)
class Played:
    """How a faulty test ended, as unittest saw it, with the case that holds the ranks' outcomes.

    ``verdict`` is "pass", "FAIL", "ERROR", "skip", "expected failure" or "unexpected success"; ``texts`` is
    what unittest would print for each entry of its result.
    """

    verdict: str
    texts: tuple[str, ...]
    case: RankCase
    result: unittest.TestResult
    warnings: tuple[warnings.WarningMessage, ...] = field(default=())

    @property
    def text(self) -> str:
        """Returns all that unittest would print of the test."""
        return "\n".join(self.texts)

    @property
    def outcome(self) -> TestOutcome:
        """Returns the merged outcome; raises AssertionError if there is none."""
        outcome = self.case._harness_outcome
        assert outcome is not None, self.text
        return outcome

    def rank(self, number: int) -> RankOutcome:
        """Returns the outcome of one rank."""
        return self.outcome.rank(number)


class FaultRows(CleanTestCase):
    """Base class of tests that run faulty cases: ``play`` runs one faulty test on ``launcher``."""

    launcher = ""

    def play(self, case: type[RankCase], method: str, **environ: str) -> Played:
        """Runs one test of a faulty case in this process, with ``environ`` added to the environment."""
        instance = case(method)
        result = unittest.TestResult()
        settings = {**PATIENT, "HARNESS_LAUNCHER": self.launcher, **environ}
        with mock.patch.dict(os.environ, settings), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            instance.run(result)
        verdict, texts = read_verdict(result)
        return Played(verdict, texts, instance, result, tuple(caught))

    def passes(self, case: type[RankCase], method: str, **environ: str) -> Played:
        """Plays a test that has to pass on every rank."""
        played = self.play(case, method, **environ)
        self.assertEqual(played.verdict, "pass", played.text)
        self.assertTrue(all(o.status is Status.PASSED for o in played.outcome.ranks))
        return played

    def check(
        self,
        played: Played,
        verdict: str,
        status: Status,
        *said: str,
        root: int | None = 1,
        collateral: tuple[int, ...] = (),
    ) -> None:
        """Checks the verdict, the merged status, the root cause, the collateral ranks and words of the
        message.
        """
        self.assertEqual(played.verdict, verdict, played.text)
        self.assertEqual(played.outcome.status, status, played.text)
        self.assertEqual(played.outcome.root_cause, root, played.text)
        for words in said:
            self.assertIn(words, played.text)
        ended = tuple(o.rank for o in played.outcome.ranks if o.status is Status.ENDED)
        self.assertEqual(ended, collateral, played.text)


class OnForkServer(FaultRows):
    """Runs the faulty tests on the fork server."""

    launcher = "forkserver"


class OnSpawn(FaultRows):
    """Runs the faulty tests on new interpreters."""

    launcher = "spawn"


class OnForkedInterpreters(OnSpawn):
    """Runs the faulty tests as ``OnSpawn`` does, with ranks that are forks of one interpreter.

    ``imports`` are modules that it has beside those that all ranks import.
    """

    imports: ClassVar[Sequence[str]] = ()

    @classmethod
    def setUpClass(cls) -> None:
        """Ends the server of the spawn launcher: this class has its own."""
        super().setUpClass()
        forked = contextlib.ExitStack()
        forked.enter_context(forked_interpreters(cls.imports))
        cls.addClassCleanup(forked.close)


# The base of a mixin for the type checker. At run time a mixin is no test case, so that its tests run only in
# the two classes that it is mixed into.
if TYPE_CHECKING:
    Rows = FaultRows
else:
    Rows = object


def read_verdict(result: unittest.TestResult) -> tuple[str, tuple[str, ...]]:
    """Returns the one verdict of a result and its texts; an error counts before a failure, being worse."""
    found = [
        ("ERROR", [text for _, text in result.errors]),
        ("FAIL", [text for _, text in result.failures]),
        ("unexpected success", ["" for _ in result.unexpectedSuccesses]),
        ("expected failure", [text for _, text in result.expectedFailures]),
        ("skip", [reason for _, reason in result.skipped]),
    ]
    texts = tuple(text for _, some in found for text in some)
    verdict = next((name for name, some in found if some), "pass")
    return verdict, texts
