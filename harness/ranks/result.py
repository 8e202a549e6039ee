"""``RankResult``: runs the test's method in a rank by unittest, and converts the result to an outcome."""

from __future__ import annotations

import os
import sys
import unittest
from collections.abc import Callable
from dataclasses import dataclass, replace
from time import monotonic
from types import TracebackType
from typing import Any, NoReturn

# Private, but unittest passes such instances to every result, with the sentinel for "no message".
from unittest.case import _SubTest, _subtest_msg_sentinel  # type: ignore[attr-defined]  # not in typeshed

from harness import pytest_outcomes
from harness.errors import MethodNotRun
from harness.outcomes import (
    EXIT_ERROR,
    EXIT_SKIPPED,
    ErrorInfo,
    RankOutcome,
    SkipExitCode,
    Status,
    SubtestOutcome,
)
from harness.ranks import debugger
from harness.ranks.exception_info import capture
from harness.ranks.exit_rules import contradicts
from harness.system import originals, posix
from harness.tracebacks import show_users_frames
from harness.watched_method import WatchedMethod

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# Bound now, because a test may replace it.
_run_by_unittest = unittest.TestCase.run

ExcInfo = tuple[type[BaseException], BaseException, TracebackType] | tuple[None, None, None]


@dataclass(frozen=True, slots=True)
class RankResult:
    """The test's result in one rank, as the rank observed it; ``outcome`` makes it a ``RankOutcome``.

    ``skip_reason`` is set where the test skipped, also where something failed besides. ``ending`` is a
    SystemExit by which the test wanted to end the process; ``accepted`` are the expected outputs that the
    rank would have written; ``expected``: ``error`` is the failure that ``expectedFailure`` announced,
    ``xfailed``: it is that of ``pytest.xfail``; ``patches`` are the builtins and standard functions that the
    test left replaced.
    """

    status: Status
    error: ErrorInfo | None = None
    skip_reason: str | None = None
    subtests: tuple[SubtestOutcome, ...] = ()
    ending: SystemExit | None = None
    note: str = ""
    accepted: tuple[object, ...] = ()
    expected: bool = False
    xfailed: bool = False
    patches: tuple[originals.Patch, ...] = ()

    @property
    def requested_exit_code(self) -> int | None:
        """The exit code that the test asked for by ``sys.exit``; None where it did not."""
        if self.ending is None:
            return None
        code = self.ending.code
        return code & 0xFF if isinstance(code, int) else 0 if code is None else 1

    @property
    def exit_code(self) -> int:
        """The exit code for a process that is this rank: the test's own choice, else upstream's."""
        if self.requested_exit_code is not None:
            return self.requested_exit_code
        if self.status is Status.SKIPPED:
            return EXIT_SKIPPED
        return 0 if self.status is Status.PASSED else EXIT_ERROR

    def outcome(self, rank: int, started_s: float, **known: Any) -> RankOutcome:
        """The ``RankOutcome`` of this rank, whose test ends now; ``known`` adds or overrides fields.

        ``started_s`` is when its test began, in seconds on the monotonic clock.
        """
        fields: dict[str, Any] = {
            "exit_code": self.requested_exit_code,
            "duration_s": monotonic() - started_s,
            "started_s": started_s,
            "pid": os.getpid(),
            **known,
        }
        return RankOutcome(
            rank=rank,
            status=self.status,
            error=self.error,
            skip_reason=self.skip_reason,
            subtests=self.subtests,
            note=self.note,
            accepted=self.accepted,
            expected=self.expected,
            xfailed=self.xfailed,
            **fields,
        )


class _ResultCollector(unittest.TestResult):
    """A unittest result that stores values instead of text.

    unittest itself runs the method in the rank, so cleanups, sub-tests, skips and decorators behave as usual.
    The exceptions of ``pytest.skip``, ``fail`` and ``xfail``, which unittest takes for errors, are what
    pytest takes them for.
    """

    def __init__(
        self,
        assertion: type[BaseException],
        rank: int | None,
        subtest_failed: Callable[[SubtestOutcome], object],
    ) -> None:
        super().__init__()
        self._rank = rank
        self._subtest_failed = subtest_failed
        self._assertion = assertion
        self.problems: list[ErrorInfo] = []
        self.xfails: list[ErrorInfo] = []
        self.skip_reasons: list[str] = []
        self.ending: SystemExit | None = None
        self.subtests: list[SubtestOutcome] = []
        self.expected = False
        self.succeeded = False

    @originals.harness_code
    def addError(self, test: unittest.TestCase, err: ExcInfo) -> None:
        """Stores an exception that is not an assertion, and the first SystemExit as the test's ending.

        One with a skip's exit code is a skip.
        """
        error = err[1]
        assert error is not None
        if (reason := skip_reason_of(error)) is not None:
            self.addSkip(test, reason)
            return
        if pytest_outcomes.is_expected(error):
            self.xfails.append(capture(error, self._assertion))
            return
        self._look(error)
        if isinstance(error, SystemExit) and self.ending is None:
            self.ending = error
        self.problems.append(capture(error, self._assertion))

    @originals.harness_code
    def addFailure(self, test: unittest.TestCase, err: ExcInfo) -> None:
        """Stores a failed assertion."""
        assert err[1] is not None
        self._look(err[1])
        self.problems.append(capture(err[1], self._assertion))

    def _look(self, error: BaseException) -> None:
        if debugger.wanted_in(self._rank):
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
            try:
                show_users_frames(error, self._assertion)
                debugger.post_mortem(error.__traceback__)
            except RuntimeError as no_terminal:  # must not replace the test's own failure
                print(no_terminal, file=sys.stderr)

    def addExpectedFailure(self, test: unittest.TestCase, err: ExcInfo) -> None:
        """Stores the failure as an expected one; the parent's unittest hears of it from the verdict."""
        self.expected = err[1] is None or skip_reason_of(err[1]) is None
        (self.addFailure if isinstance(err[1], self._assertion) else self.addError)(test, err)

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """Stores a pass: the parent's unittest decides whether a failure was expected."""
        self.succeeded = True

    def addDuration(self, test: unittest.TestCase, elapsed: float) -> None:
        """Does nothing: from Python 3.12 on, unittest calls this while builtins may be replaced."""

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Stores that unittest calls the test passed."""
        self.succeeded = True

    @originals.harness_code
    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        """Stores the reason of the test's skip, or a skipped sub-test."""
        if isinstance(test, _SubTest):
            self.subtests.append(_subtest(test, Status.SKIPPED, skip_reason=reason))
        else:
            self.skip_reasons.append(reason)

    @originals.harness_code
    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: ExcInfo | None) -> None:
        """Stores one sub-test; ``err`` is None where it passed.

        Python before 3.11 calls this after the test, not as the sub-test ends (python/cpython#75039).
        """
        if err is None or err[1] is None:
            self.subtests.append(_subtest(subtest, Status.PASSED))
            return
        if (reason := skip_reason_of(err[1])) is not None:
            self.addSkip(subtest, reason)
            return
        if pytest_outcomes.is_expected(err[1]):  # as with expectedFailure, it is what the whole test expects
            self.xfails.append(capture(err[1], self._assertion))
            return
        info = capture(err[1], self._assertion)
        status = Status.FAILED if info.is_assertion else Status.ERROR
        self.subtests.append(_subtest(subtest, status, error=info))
        self._subtest_failed(self.subtests[-1])


def skip_reason_of(error: BaseException) -> str | None:
    """The reason of a skip that unittest takes for an error: a skip's exit code, or pytest's; else None."""
    if isinstance(error, SystemExit) and isinstance(error.code, SkipExitCode):
        return error.code.reason
    return str(error) if pytest_outcomes.is_skip(error) else None


def _subtest(
    subtest: Any, status: Status, error: ErrorInfo | None = None, skip_reason: str | None = None
) -> SubtestOutcome:
    message = None if subtest._message is _subtest_msg_sentinel else _text(str, subtest._message)
    params = tuple((str(k), _text(repr, v)) for k, v in subtest.params.items())
    return SubtestOutcome(message, params, status, error, skip_reason)


def _text(to_text: Callable[[object], str], value: object) -> str:
    try:
        return to_text(value)[:300]
    except Exception as error:  # noqa: BLE001 - a parameter's repr is the test's code
        return f"<{to_text.__name__} raised {type(error).__name__}>"


def run_body(
    case: unittest.TestCase,
    set_up: Any,
    tear_down: Any,
    subtest_failed: Callable[[SubtestOutcome], object] = lambda subtest: None,
) -> RankResult:
    """Runs a case's method in this rank, between ``set_up`` and ``tear_down``, followed by its cleanups.

    The case's own ``setUp`` and ``tearDown`` run in the parent. ``subtest_failed`` is called with each
    sub-test that fails, as it ends. KeyboardInterrupt propagates. A pass is one only if unittest says so and
    the method was seen to return. Builtins and standard functions are the original ones again afterwards.
    """
    watched = WatchedMethod(case, getattr(case, case._testMethodName))
    setattr(case, case._testMethodName, watched.call)
    collector = _ResultCollector(case.failureException, getattr(case, "rank", None), subtest_failed)
    case.setUp = set_up  # type: ignore[method-assign]  # this instance is used in the rank only
    case.tearDown = tear_down  # type: ignore[method-assign]
    try:
        _run_by_unittest(case, collector)
    finally:
        patches = originals.restore()
    result = _result(collector, watched)
    return replace(result, patches=patches) if patches else result


def _result(collector: _ResultCollector, watched: WatchedMethod) -> RankResult:
    subtests = tuple(collector.subtests)
    reasons = collector.skip_reasons
    skipped = "; ".join(dict.fromkeys(reasons)) if reasons else None
    problems = collector.problems
    if problems:
        status = Status.FAILED if all(p.is_assertion for p in problems) else Status.ERROR
        return RankResult(
            status, _joined(problems), skipped, subtests, collector.ending, expected=collector.expected
        )
    bad = {s.status for s in subtests if s.status.bad}
    if bad:
        return RankResult(Status.FAILED if bad == {Status.FAILED} else Status.ERROR, None, skipped, subtests)
    if collector.xfails:
        error = _joined(collector.xfails)
        return RankResult(Status.FAILED, error, skipped, subtests, collector.ending, xfailed=True)
    if skipped is not None:
        return RankResult(Status.SKIPPED, skip_reason=skipped, subtests=subtests)
    not_run = _not_run(collector, watched)
    if not_run is not None:
        return RankResult(Status.ERROR, capture(not_run), subtests=subtests)
    return RankResult(Status.PASSED, subtests=subtests)


def _not_run(collector: _ResultCollector, watched: WatchedMethod) -> MethodNotRun | None:
    """The error of a test in which nothing failed, and of which nobody saw that it passed."""
    # unittest says neither "passed" nor "skipped" of a test with a skipped sub-test (python/cpython#79508).
    if any(s.status is Status.SKIPPED for s in collector.subtests):
        return None
    if not collector.succeeded:
        return MethodNotRun("unittest ended the test without a verdict: something has patched unittest")
    return watched.not_run()


def _joined(problems: list[ErrorInfo]) -> ErrorInfo:
    """The first problem, with the tracebacks of the later ones (tearDownRank, cleanups) appended to its own.

    A ``sys.exit`` counts as the first problem only where there is no other: its code may be that of a pass or
    a skip.
    """
    first = next((p for p in problems if p.type_name != SystemExit.__name__), problems[0])
    place = problems.index(first)
    before = [f"Before that:\n{p.traceback}" for p in problems[:place]]
    after = [f"Afterwards, while cleaning up:\n{p.traceback}" for p in problems[place + 1 :]]
    return replace(first, traceback="\n\n".join([first.traceback, *before, *after]))


def final_result(result: RankResult | None, ending: BaseException | None, texts: list[str]) -> RankResult:
    """The rank's final result, from the recorded result of its test and the exception that ended ``_run``.

    ``ending`` is the exception that left ``_run``; ``texts`` are what an overridden ``run_test`` sent over
    the pipe, as upstream's does with a traceback. A rank that recorded no result has crashed. An exception
    without a result may be the method's own, and then is the one that ``expectedFailure`` expects; Ctrl-C is
    never expected. A skip or an expected failure by pytest's functions is one here, too.
    """
    if isinstance(ending, SystemExit):
        return _exited(result, ending, texts)
    if ending is not None:
        if result is None and (reason := skip_reason_of(ending)) is not None:
            return RankResult(Status.SKIPPED, skip_reason=reason)
        if result is None or result.status in (Status.PASSED, Status.SKIPPED):
            info = capture(ending)
            xfailed = result is None and pytest_outcomes.is_expected(ending)
            status = Status.FAILED if info.is_assertion or xfailed else Status.ERROR
            expected = result is None and isinstance(ending, Exception)
            return RankResult(status, info, expected=expected, xfailed=xfailed)
        return result
    if result is None:
        return RankResult(Status.CRASHED, note="_run returned without running the test")
    return result


def _exited(result: RankResult | None, ending: SystemExit, texts: list[str]) -> RankResult:
    if result is not None and result.ending is None and not contradicts(result.status, ending.code):
        return result
    if result is None and isinstance(ending.code, SkipExitCode):
        return RankResult(Status.SKIPPED, skip_reason=ending.code.reason)
    if texts:
        error = ErrorInfo("Exception", texts[0].strip().rsplit("\n", 1)[-1], texts[0])
        return RankResult(Status.ERROR, error, expected=result is None)
    if result is not None and result.error is not None and result.error.type_name != SystemExit.__name__:
        return replace(result, note="by sys.exit")  # the failure counts, whatever the exit code stands for
    known = result if result is not None else RankResult(Status.CRASHED)
    error = known.error or capture(ending)
    return replace(known, status=Status.CRASHED, error=error, ending=ending, note="by sys.exit")


def exit_forked_child(final: RankResult) -> NoReturn:
    """Ends, without a report, a process that a test forked from its rank and that returned from the test."""
    posix.flush_streams()
    os._exit(final.exit_code)
