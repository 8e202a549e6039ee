"""What unittest says about one test, gathered into one record.

A test may report several times (a failure, a failing ``tearDown``, sub-tests, its class's fixtures); a
``RunningTest`` collects them all and in the end makes one record of them.
"""

from __future__ import annotations

import contextlib
import traceback
import types
import unittest
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from time import monotonic, time  # by name, for a test may leave the module's patched
from typing import Any

from harness.errors import RankProblem, RanksInterrupted
from harness.outcomes import Status, TestOutcome
from harness.record import SubtestRecord, TestRecord
from harness.runner.output_capture import elide
from harness.runner.rank_records import rank_records, subtest_records

ExcInfo = tuple[type[BaseException], BaseException, types.TracebackType | None]

# Characters of a failure's text: an assertion that prints two tensors in full must not stop the run, and
# nobody reads more.
DETAILS_MAX = 200_000
REASON_MAX = 500
# Failing or skipped sub-tests that are itemised; the rest is counted.
SUBTESTS_MAX = 200

# Exceptions whose text has the tracebacks of the ranks; where they were raised in the parent tells nothing.
_TOLD_BY_RANKS = (RankProblem, RanksInterrupted)
# Its frames are between a test and unittest's where a fixture or a KeyboardInterrupt is concerned.
_WORKER = "harness.runner.worker"
# Seconds. Less than that is the look whether there is a fixture at all.
FIXTURE_LEAST_S = 0.001


@dataclass(slots=True)
class Trouble:
    """One thing that went wrong: its status, one line, and the text in full."""

    status: Status
    reason: str
    details: str


@dataclass(slots=True)
class RunningTest:
    """One test that runs: what has been said about it so far."""

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
    outcome: TestOutcome | None = None
    fixtures: dict[str, float] = field(default_factory=dict)

    @contextlib.contextmanager
    def timed(self, fixture: str) -> Iterator[None]:
        """Adds the time of what happens inside to a fixture's, where it is enough to have been one."""
        began = monotonic()
        try:
            yield
        finally:
            took = monotonic() - began
            if took > FIXTURE_LEAST_S:
                self.fixtures[fixture] = self.fixtures.get(fixture, 0.0) + took

    def verdict(self) -> tuple[Status, str]:
        """Status and one line: any error beats any failure, and trouble beats everything else.

        Whether a multi-rank test did well is what unittest was told, which may have expected the failure of
        its ranks; their outcome says only what kind of trouble it was.
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

    def record(self) -> TestRecord:
        """The record of this attempt, without what only the controller knows."""
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
            warnings=outcome.warnings if outcome is not None else (),
            file=self.file,
            line=self.line,
            ranks=rank_records(outcome) if outcome is not None else (),
            subtests=subtests[:SUBTESTS_MAX],
            subtests_run=self.subtests_run,
            extra={"fixtures_s": self.fixtures} if self.fixtures else {},
        )


class RecordingResult(unittest.TestResult):
    """A unittest result that writes into the ``RunningTest`` of the test that runs.

    ``post_mortem`` is called with the traceback of each failure, before anything is torn down.
    """

    def __init__(self, post_mortem: Callable[[ExcInfo], None] | None = None) -> None:
        super().__init__()
        self._post_mortem = post_mortem
        self.running = RunningTest("")

    def open(self, running: RunningTest) -> None:
        """From now on everything is said about this test."""
        self.running = running

    # -- what unittest calls; the base class would keep every test and traceback for the life of the worker

    def startTest(self, test: unittest.TestCase) -> None:
        """Counts."""
        self.testsRun += 1

    def stopTest(self, test: unittest.TestCase) -> None:
        """Takes what a multi-rank test has left behind about its ranks."""
        outcome = getattr(test, "_harness_outcome", None)
        if isinstance(outcome, TestOutcome):
            self.running.outcome = outcome

    def addSuccess(self, test: unittest.TestCase) -> None:
        """The test passed."""
        self.running.passed = True

    def addError(self, test: unittest.TestCase, err: Any) -> None:
        """The test raised, or one of its fixtures did."""
        self._trouble(Status.ERROR, test, err)

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:
        """An assertion failed."""
        self._trouble(Status.FAILED, test, err)

    def addSkip(self, test: unittest.TestCase, reason: object) -> None:
        """The test was skipped, or one of its sub-tests. A decorator passes on whatever it was given."""
        reason = _text(reason)
        description = _description(test)
        if description is None:
            self.running.skips.append(reason)
        else:
            self.running.subtests_run += 1
            self._subtest(SubtestRecord(description, Status.SKIPPED, reason))

    def addExpectedFailure(self, test: unittest.TestCase, err: Any) -> None:
        """The test failed as it should."""
        self.running.expected = headline(err[1])

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """The test passed and should not have."""
        self.running.unexpected = True

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """A sub-test is over; ``err`` is None where it passed."""
        self.running.subtests_run += 1
        if err is None:
            return
        status = Status.FAILED if issubclass(err[0], test.failureException) else Status.ERROR
        description = _description(subtest) or "(no description)"
        trouble = self._trouble(status, test, err, f"sub-test {description}")
        self._subtest(SubtestRecord(description, status, elide(trouble.details, DETAILS_MAX // 10)))

    def addDuration(self, test: unittest.TestCase, elapsed: float) -> None:
        """Python 3.12 and later say how long it took; the worker measures that itself."""

    def _subtest(self, record: SubtestRecord) -> None:
        if len(self.running.subtests) < SUBTESTS_MAX:
            self.running.subtests.append(record)

    def _trouble(self, status: Status, test: object, err: ExcInfo, where: str = "") -> Trouble:
        error = err[1]
        if self._post_mortem is not None and not isinstance(error, RankProblem):
            self._post_mortem(err)
        told = False
        if isinstance(error, RankProblem) and error.outcome is not None:
            told = self.running.outcome is error.outcome  # its text, of the sub-test before, has this one too
            self.running.outcome = error.outcome
        if not isinstance(test, unittest.TestCase):
            where = str(test)  # unittest's stand-in for a fixture: "setUpClass (module.case)"
        trouble = Trouble(status, headline(error), details_of(err))
        if where and not isinstance(
            error, RankProblem
        ):  # whose text names its sub-tests and begins as it should
            trouble.reason = f"{where}: {trouble.reason}"
            trouble.details = f"{where}\n{trouble.details}"
        if not told:
            self.running.troubles.append(trouble)
        self.running.line = line_in(self.running.file, err[2]) or self.running.line
        return trouble


def _description(test: unittest.TestCase) -> str | None:
    """What unittest prints for a sub-test, ``[message] (x=1)``; None for a test."""
    parent = getattr(test, "test_case", None)
    return test.id().removeprefix(parent.id()).strip() if isinstance(parent, unittest.TestCase) else None


def _text(value: object) -> str:
    """``str()`` of what a test made, which may raise; the words are the ``traceback`` module's."""
    try:
        return str(value)
    except Exception:  # noqa: BLE001 - whatever a test's own class raises, the test has its verdict
        return f"<{'exception' if isinstance(value, BaseException) else 'object'} str() failed>"


def headline(error: BaseException) -> str:
    """An exception in one line: its type and the first line of its text."""
    first = next((line for line in _text(error).splitlines() if line.strip()), "")
    name = type(error).__qualname__
    if type(error).__module__ not in ("builtins", "__main__"):
        name = f"{type(error).__module__}.{name}"
    if isinstance(error, _TOLD_BY_RANKS):
        return first.strip() or name
    return elide(f"{name}: {first.strip()}" if first else name, REASON_MAX)


def details_of(err: ExcInfo) -> str:
    """The text of a failure: a traceback without unittest's own frames, or what every rank did."""
    kind, error, trace = err
    if isinstance(error, _TOLD_BY_RANKS):
        return str(error)
    return "".join(traceback.format_exception(kind, error, users_traceback(error, trace))).rstrip()


def users_traceback(error: BaseException, trace: types.TracebackType | None) -> types.TracebackType | None:
    """A traceback from the test on, and of an assertion up to where it was made: without unittest's frames
    before, and its ``assert`` methods behind."""
    entries = list(_entries(trace))
    theirs = [not _of_unittest(entry) for entry in entries]
    if not any(theirs):
        return trace
    first = theirs.index(True)
    last = (
        len(theirs) - 1 - theirs[::-1].index(True) if isinstance(error, AssertionError) else len(theirs) - 1
    )
    result: types.TracebackType | None = None
    for entry in reversed(entries[first : last + 1]):
        result = types.TracebackType(result, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return result


def _entries(trace: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while trace is not None:
        yield trace
        trace = trace.tb_next


def _of_unittest(trace: types.TracebackType) -> bool:
    """True for a frame of unittest, or of a library that asks to be left out of tracebacks too."""
    return "__unittest" in trace.tb_frame.f_globals or trace.tb_frame.f_globals.get("__name__") == _WORKER


def line_in(file: str, trace: types.TracebackType | None) -> int:
    """The innermost line of a file that a traceback passes through, or 0."""
    lines = [entry.tb_lineno for entry in _entries(trace) if entry.tb_frame.f_code.co_filename == file]
    return lines[-1] if lines else 0
