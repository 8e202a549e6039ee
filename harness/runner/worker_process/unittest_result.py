"""``RecordingResult``: collects all that unittest reports about a test, and makes one record of it.

unittest may report several things about a test: a failure, a failing ``tearDown``, sub-tests, and failures of
its class's fixtures.
"""

from __future__ import annotations

import contextlib
import functools
import traceback
import types
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic, time  # by name, because a test may leave ``time.time`` patched
from typing import Any

from harness import pytest_outcomes
from harness.errors import InterruptReport, RankTestError, UsageError
from harness.outcomes import Status, TestOutcome
from harness.record import SubtestRecord, TestRecord
from harness.runner.worker_process.output_capture import elide
from harness.runner.worker_process.rank_records import rank_records, subtest_records
from harness.system import originals
from harness.system.python_warnings import with_warning
from harness.tracebacks import has_users_frames, show_users_frames
from harness.watched_method import error_of_pass, warning_of_pass, ways_to_methods

ExcInfo = tuple[type[BaseException], BaseException, types.TracebackType | None]

# Characters of a failure's text. More would not be read, and an assertion that prints two large tensors must
# not fill the memory.
DETAILS_MAX = 200_000
REASON_MAX = 500
# Number of failing or skipped sub-tests that a record lists; further ones are only counted.
SUBTESTS_MAX = 200

# Seconds. A shorter time was spent on finding out that there is no fixture.
FIXTURE_LEAST_S = 0.001


@dataclass(slots=True)
class Trouble:
    """One thing that went wrong in a test: its status, its reason in one line, and the full text."""

    status: Status
    reason: str
    details: str


@dataclass(slots=True)
class RunningTest:
    """The running test, and what unittest has reported about it so far."""

    id: str
    file: str = ""
    line: int = 0
    started_at: float = field(default_factory=time)
    started_s: float = field(default_factory=monotonic)
    duration_s: float = 0.0
    troubles: list[Trouble] = field(default_factory=list)
    skips: list[str] = field(default_factory=list)
    subtests: list[SubtestRecord] = field(default_factory=list)
    subtests_run: int = 0
    passed: bool = False
    expected: str | None = None
    unexpected: bool = False
    warnings: tuple[str, ...] = ()
    outcome: TestOutcome | None = None
    fixtures: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, fixture: str) -> Iterator[None]:
        """Adds the time that the context lasts to the fixture's, unless it is shorter than any fixture."""
        began = monotonic()
        try:
            yield
        finally:
            took = monotonic() - began
            if took > FIXTURE_LEAST_S:
                self.fixtures[fixture] = self.fixtures.get(fixture, 0.0) + took

    def add_subtest(self, record: SubtestRecord) -> None:
        """Adds the record of a sub-test that failed or was skipped, unless there are ``SUBTESTS_MAX``."""
        if len(self.subtests) < SUBTESTS_MAX:
            self.subtests.append(record)

    def verdict(self) -> tuple[Status, str]:
        """The test's status and reason. Errors come before failures, and both before any other status.

        Whether a multi-rank test passed is decided by what its case reported to unittest, because a case may
        accept failures of its ranks. The outcome of the ranks only tells the kind of failure.
        """
        bad_subtests = [s for s in self.subtests if s.status.bad]
        if (self.troubles or bad_subtests) and self.outcome is not None and self.outcome.status.bad:
            return self.outcome.status, self.outcome.reason
        if self.troubles:
            statuses = {t.status for t in self.troubles}
            worst = Status.FAILED if statuses == {Status.FAILED} else Status.ERROR
            return worst, self.troubles[0].reason
        if bad_subtests:
            worst = Status.FAILED if {s.status for s in bad_subtests} == {Status.FAILED} else Status.ERROR
            return worst, f"{len(bad_subtests)} sub-test{'s' if len(bad_subtests) > 1 else ''} failed"
        if self.unexpected:
            return Status.XPASSED, "passed, but is marked as an expected failure"
        if self.expected is not None:
            return Status.XFAILED, self.expected
        if self.skips and not self.passed:
            return Status.SKIPPED, "; ".join(dict.fromkeys(self.skips))
        # unittest calls a test with a skipped sub-test neither passed nor skipped (related:
        # python/cpython#79508).
        if self.passed or any(s.status is Status.SKIPPED for s in self.subtests):
            return Status.PASSED, ""
        return Status.ERROR, "the test ended without saying how"

    def record(self, *, keeps_calls: bool = False) -> TestRecord:
        """The record of this attempt, without the fields that only the controller can fill in.

        The ranks' calls are in it where the test did not pass: else nobody looks at them but a timeline, for
        which ``keeps_calls`` is set. To write and read them takes five times as long as the rest (c10d).
        """
        status, reason = self.verdict()
        outcome = self.outcome
        merged = outcome is not None and outcome.subtests and status is not Status.XFAILED
        subtests = subtest_records(outcome) if outcome is not None and merged else tuple(self.subtests)
        return TestRecord(
            id=self.id,
            status=status,
            duration_s=self.duration_s,
            started_at=self.started_at,
            started_s=self.started_s,
            world_size=len(outcome.ranks) if outcome is not None and outcome.ranks else None,
            mode=outcome.mode if outcome is not None else "",
            reason=elide(reason, REASON_MAX),
            details=elide("\n\n".join(t.details for t in self.troubles), DETAILS_MAX),
            warnings=(*_warned(self.warnings, outcome), *_told(outcome)),
            file=self.file,
            line=self.line,
            ranks=rank_records(outcome, keep_calls=keeps_calls or status.bad) if outcome is not None else (),
            subtests=subtests[:SUBTESTS_MAX],
            subtests_run=self.subtests_run,
            extra={"fixtures_s": self.fixtures} if self.fixtures else {},
        )


def _warned(warnings: tuple[str, ...], outcome: TestOutcome | None) -> tuple[str, ...]:
    """The Python warnings of the test in this process and in its ranks."""
    lines = (line for rank in (outcome.ranks if outcome is not None else ()) for line in rank.warned)
    return functools.reduce(with_warning, lines, warnings)


def _told(outcome: TestOutcome | None) -> tuple[str, ...]:
    """The lines about what a test left behind, and about its ranks' communication."""
    return (*outcome.warnings, *outcome.communication) if outcome is not None else ()


class RecordingResult(unittest.TestResult):
    """A unittest result that adds everything to the ``RunningTest`` of the test that runs.

    ``post_mortem`` is called with the exception of each failure, before anything is torn down.
    """

    def __init__(self, post_mortem: Callable[[ExcInfo], None] | None = None) -> None:
        super().__init__()
        self._post_mortem = post_mortem
        self._ways = ways_to_methods()
        self.running = RunningTest("")

    def open(self, running: RunningTest) -> None:
        """From now on all reports are about this test."""
        self.running = running

    # -- what unittest calls; the base class's methods would keep every traceback until the worker ends

    def startTest(self, test: unittest.TestCase) -> None:
        """Counts the test in ``testsRun``."""
        self.testsRun += 1

    def stopTest(self, test: unittest.TestCase) -> None:
        """Keeps the outcome of the ranks, which a multi-rank test leaves in an attribute."""
        outcome = getattr(test, "_harness_outcome", None)
        if isinstance(outcome, TestOutcome):
            self.running.outcome = outcome

    def addSuccess(self, test: unittest.TestCase) -> None:
        """Called where the test passed."""
        self.running.passed = True
        error = error_of_pass(test, self._ways)
        if error is not None:
            self._trouble(Status.ERROR, test, (type(error), error, None))
        warning = warning_of_pass(test)
        if warning is not None:
            self.running.warnings = (*self.running.warnings, warning)

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """Called where the test or one of its fixtures raised an exception.

        Those of ``pytest.skip`` and ``pytest.xfail``, which a helper may call, mean the same as in pytest.
        """
        if pytest_outcomes.is_skip(err[1]):
            self.addSkip(test, err[1])
        elif pytest_outcomes.is_expected(err[1]):
            self.addExpectedFailure(test, err)
        else:
            self._trouble(Status.ERROR, test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Called where an assertion of the test failed."""
        self._trouble(Status.FAILED, test, err)

    @originals.harness_code
    def addSkip(self, test: unittest.TestCase, reason: object) -> None:
        """Called where the test or a sub-test was skipped. A decorator may pass any object as ``reason``."""
        reason = _text(reason)
        description = _description(test)
        if description is None:
            self.running.skips.append(reason)
        else:
            self.running.subtests_run += 1
            self.running.add_subtest(SubtestRecord(description, Status.SKIPPED, reason))

    @originals.harness_code
    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        """Called where the test failed and was marked as an expected failure."""
        self.running.expected = headline(err[1])

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """Called where the test passed and was marked as an expected failure."""
        self.running.unexpected = True

    @originals.harness_code
    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """Called at the end of a sub-test; ``err`` is None where it passed."""
        self.running.subtests_run += 1
        if err is None:
            return
        status = Status.FAILED if issubclass(err[0], test.failureException) else Status.ERROR
        description = _description(subtest) or "(no description)"
        trouble = self._trouble(status, test, err, f"sub-test {description}")
        record = SubtestRecord(description, status, elide(trouble.details, DETAILS_MAX // 10))
        self.running.add_subtest(record)

    def addDuration(self, test: unittest.TestCase, elapsed: float) -> None:
        """Called by Python 3.12 and later with the test's duration, which the worker measures itself."""

    @originals.harness_code
    def _trouble(self, status: Status, test: object, err: ExcInfo, where: str = "") -> Trouble:
        error = err[1]
        if pytest_outcomes.is_failure(error):
            status = Status.FAILED
        told = False
        if isinstance(error, RankTestError) and error.outcome is not None:
            told = self.running.outcome is error.outcome  # the text for an earlier sub-test has this one too
            self.running.outcome = error.outcome
        if self._post_mortem is not None and not told:
            self._post_mortem(err)
        if not isinstance(test, unittest.TestCase):
            where = str(test)  # unittest's stand-in for a fixture: "setUpClass (module.case)"
        trouble = Trouble(status, headline(error), details_of(error))
        if where and not isinstance(error, RankTestError):  # the ranks' text names the sub-test already
            trouble.reason = f"{where}: {trouble.reason}"
            trouble.details = f"{where}\n{trouble.details}"
        if not told:
            self.running.troubles.append(trouble)
        elif not where:  # the text about the whole test has its sub-tests too
            self.running.troubles[-1] = trouble
        self.running.line = line_in(self.running.file, err[2]) or self.running.line
        return trouble

    @originals.harness_code
    def take_warning(self, line: str) -> None:
        """Called with the line of a Python warning."""
        self.running.warnings = with_warning(self.running.warnings, line)


def _description(test: unittest.TestCase) -> str | None:
    """The description of a sub-test as unittest prints it, ``[message] (x=1)``; None for a test."""
    parent = getattr(test, "test_case", None)
    return test.id().removeprefix(parent.id()).strip() if isinstance(parent, unittest.TestCase) else None


def _text(value: object) -> str:
    """``str()`` of a test's object; where that raises, the same text as the ``traceback`` module prints."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - an object of a test may raise anything here; the test keeps its verdict
        return f"<{'exception' if isinstance(value, BaseException) else 'object'} str() failed>"


def _told_by_ranks(error: BaseException) -> bool:
    """Whether an exception's text has what the ranks did; the parent's traceback is of no use for it."""
    return isinstance(error, RankTestError) or InterruptReport.of(error) is not None


def headline(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its text, or the ranks' verdict alone."""
    first = next((line for line in _text(error).splitlines() if line.strip()), "")
    name = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = f"{type(error).__module__}.{name}"
    if _told_by_ranks(error):
        return first.strip() or name
    return elide(f"{name}: {first.strip()}" if first else name, REASON_MAX)


def is_mistake_alone(error: BaseException) -> bool:
    """Whether an exception is a mistake in no line of the user's code: its text alone says where it is."""
    return isinstance(error, UsageError) and not has_users_frames(error)


def details_of(error: BaseException) -> str:
    """The text of a failure: the tracebacks with the user's frames, or the report about all ranks."""
    if _told_by_ranks(error):
        return str(error)
    if is_mistake_alone(error):
        return "".join(traceback.format_exception_only(error)).rstrip()
    show_users_frames(error)
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()


def _entries(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def line_in(file: str, trace: types.TracebackType | None) -> int:
    """The innermost line of a file that a traceback passes through, or 0."""
    lines = [entry.tb_lineno for entry in _entries(trace) if entry.tb_frame.f_code.co_filename == file]
    return lines[-1] if lines else 0
