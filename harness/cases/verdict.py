"""Reports a test's merged outcome to unittest, as skip, failure, error, sub-tests and warnings."""

from __future__ import annotations

import inspect
import os
import sys
import unittest
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

# Private, but the only exception that ends a test of unittest without a verdict of its own.
from unittest.case import _ShouldStop  # type: ignore[attr-defined]  # not in typeshed

from harness import environment, pytest_outcomes
from harness.cases import parent_attributes, usual_mistakes
from harness.cases.rerun_command import rerun_command
from harness.errors import (
    CommunicationWarning,
    HarnessError,
    InterruptReport,
    RankError,
    RankFailure,
    RankLeakWarning,
    RankTestError,
    ServerLost,
)
from harness.outcomes import MergedSubtest, Status, SubtestOutcome, TestOutcome, ranks_text
from harness.rank_merging import skip_reason
from harness.ranks.job import JobResult
from harness.report.failure import MAX_OUTPUT_LINES, failure_text
from harness.settings import MORE_TIME, EnvVar
from harness.system import originals

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def raise_verdict(case: unittest.TestCase, outcome: TestOutcome) -> None:
    """Raises the exception for the outcome, from within the case's test method in the parent.

    SkipTest, RankFailure or RankError, after the sub-tests were replayed. Returns for a pass, after a warning
    about what the test left behind (RankLeakWarning, or RankError under ``HARNESS_STRICT=1``) or about its
    ranks' communication (CommunicationWarning).
    """
    __tracebackhide__ = True
    if outcome.warnings and not outcome.status.bad:
        _warn_of_leaks(case, outcome)
    if outcome.communication and not outcome.status.bad:
        _warn(case, outcome.communication, CommunicationWarning)
    if outcome.status is Status.PASSED and not outcome.subtests:
        return  # the usual case
    if outcome.status.bad and _expects_failure(case) and not _failed_as_expected(outcome):
        # unittest counts any exception of the method as the expected one, but not one of a cleanup.
        case.addCleanup(_report, case, outcome)
    elif _xfailed(outcome) and not _expects_failure(case):
        _report_xfailed(case, outcome)
    else:
        _report(case, outcome)


def _report(case: unittest.TestCase, outcome: TestOutcome) -> None:
    """Replays the sub-tests, then raises the failure of the whole test or its skip, if there is one.

    The failure alone where unittest's result knows no sub-tests: each exception would end the test.
    """
    __tracebackhide__ = True
    itemized = getattr(case._outcome, "result_supports_subtests", False)  # type: ignore[attr-defined]  # private
    skipped = skip_reason(outcome.ranks)
    divergent = skipped is None and any(o.skipped for o in outcome.ranks)
    told_by_subtests = any(m.subtest.status.bad for m in outcome.subtests) and not divergent
    whole = any(o.bad_beyond_subtests for o in outcome.ranks) or (outcome.status.bad and not told_by_subtests)
    if itemized:
        _replay_subtests(case, _with_failure_counted(case, outcome) if whole else outcome, alone=not whole)
    if whole or (outcome.status.bad and not itemized):
        if skipped is not None:  # both are true, and the failure comes first for runners that take one
            case.addCleanup(_raise, unittest.SkipTest(skipped))
        raise _problem(case, outcome.status, _text(case, outcome), outcome)
    if skipped is not None:
        raise unittest.SkipTest(skipped)


def _with_failure_counted(case: unittest.TestCase, outcome: TestOutcome) -> TestOutcome:
    """The outcome without the skipped sub-tests for which unittest would not count its expected failure.

    A method that skipped a sub-test and then fails as ``expectedFailure`` says has no result in unittest.
    That is kept where every rank did so, as one process does; else the failure of other ranks would be lost.
    """
    if not _expects_failure(case) or not outcome.status.bad:
        return outcome
    partly = [
        m
        for m in outcome.subtests
        if m.subtest.status is Status.SKIPPED and len(m.ranks) < len(outcome.ranks)
    ]
    return replace(outcome, subtests=tuple(m for m in outcome.subtests if m not in partly))


def _xfailed(outcome: TestOutcome) -> bool:
    """Whether ``pytest.xfail`` in ranks is all that went wrong."""
    return _failed_as_expected(outcome) and all(o.xfailed for o in outcome.ranks if o.bad)


def _report_xfailed(case: unittest.TestCase, outcome: TestOutcome) -> None:
    """Makes the test an expected failure: for unittest's results, which do not know pytest's, and for pytest.

    A case that is run without a result raises the failure.
    """
    __tracebackhide__ = True
    result = getattr(case._outcome, "result", None)  # type: ignore[attr-defined]  # private
    if result is not None and not isinstance(result, unittest.TestResult):
        xfail = pytest_outcomes.xfail(xfail_reason(outcome))
        if xfail is not None:
            raise xfail
    try:
        raise _problem(case, outcome.status, _text(case, outcome), outcome)
    except RankTestError:
        if result is None:
            raise
        result.addExpectedFailure(case, sys.exc_info())
    raise _ShouldStop


def xfail_reason(outcome: TestOutcome) -> str:
    """The message of the first rank that failed as was expected."""
    error = next(o.error for o in outcome.ranks if o.bad)
    return error.message if error is not None else ""


def server_lost(case: unittest.TestCase, how: str) -> ServerLost:
    """The error for a test whose server died while it ran."""
    return ServerLost(
        f"{case.id()}: the server that starts ranks died under this test ({how}) and took its ranks with it; "
        f"the next test gets a new one\nreproduce: {rerun_command(case)}"
    )


def interrupted(case: unittest.TestCase, outcome: TestOutcome) -> KeyboardInterrupt:
    """The exception of a test whose ranks were ended by Ctrl-C, with what they were doing."""
    told = replace(outcome, status=Status.ENDED, root_cause=None, reason="interrupted")
    return KeyboardInterrupt(InterruptReport(_text(case, told), told))


def left_behind(watched: JobResult) -> tuple[str, ...]:
    """Lines about what a test left: processes, which were ended, and changes in pooled ranks."""
    lines = [f"left behind and ended: {line}" for line in watched.leaked]
    found: dict[str, list[int]] = {}
    changed = [o for o in watched.outcomes if o.left]
    if changed and any(o.bad for o in watched.outcomes):
        changed = []  # a failed test's ranks are replaced in any case
    for outcome in changed:
        for change in outcome.left:
            found.setdefault(change, []).append(outcome.rank)
    lines += [f"left changed in {ranks_text(ranks)}: {change}" for change, ranks in found.items()]
    return (*lines, *watched.notes)


def _problem(case: unittest.TestCase, status: Status, text: str, outcome: TestOutcome) -> RankTestError:
    if status is not Status.FAILED:
        return RankError(text, outcome)
    own = case.failureException
    if issubclass(RankFailure, own):
        return RankFailure(text, outcome)
    kind = type(RankFailure.__name__, (RankFailure, own), {"__module__": RankFailure.__module__})
    failure: RankTestError = kind(text, outcome)
    return failure


@originals.harness_code
def _text(case: unittest.TestCase, outcome: TestOutcome) -> str:
    # The case itself adds the seed to what its test raises.
    rerun = "" if os.environ.get(EnvVar.WORKER) else rerun_command(case)
    if environment.settings().launcher == "external":
        rerun += "   (on each rank, started as this run was)"
    lines = getattr(case, "output_lines_in_failure", MAX_OUTPUT_LINES)
    hints = (*parent_attributes.hints(case, outcome), *usual_mistakes.hints(case, outcome))
    if any(o.status is Status.TIMED_OUT and o.phase != "exit" for o in outcome.ranks):
        hints = (*hints, MORE_TIME)
    return failure_text(case.id(), outcome, rerun=rerun, seed=None, max_output_lines=lines, hints=hints)


def _failed_as_expected(outcome: TestOutcome) -> bool:
    """Whether all that went wrong are expected failures: no crash, no hang, no divergence, no other failure.

    A sub-test whose failure is expected ends its method, and does not count as a bad sub-test.
    """
    bad = [o for o in outcome.ranks if o.bad]
    return (
        bool(bad)
        and all(o.failed_as_expected for o in bad)
        and not any(o.skipped for o in outcome.ranks)
        and not any(m.subtest.status.bad for m in outcome.subtests)
    )


def _expects_failure(case: unittest.TestCase) -> bool:
    method = getattr(case, case._testMethodName)
    return any(getattr(m, "__unittest_expecting_failure__", False) for m in (method, type(case)))


def refuse_as_expected(case: unittest.TestCase, error: HarnessError) -> None:
    """Makes a failure to start or join ranks an error, also of a test with ``expectedFailure``."""
    if not isinstance(error, RankTestError) and _expects_failure(case):
        case.addCleanup(_raise, error)


def _raise(problem: Exception) -> None:
    raise problem


class _Shown:
    """A sub-test's parameter, of which the rank sent the repr that unittest shows."""

    def __init__(self, text: str) -> None:
        self._text = text

    def __repr__(self) -> str:
        return self._text


def _replay_subtests(case: unittest.TestCase, outcome: TestOutcome, *, alone: bool) -> None:
    """Replays the ranks' sub-tests on the case; with ``alone`` the first bad one carries the report.

    The report is that on the whole test; ``alone`` says that only sub-tests went wrong. Bad ones come first,
    because with ``failfast`` unittest ends the test at one, and hears of none after it.
    """
    __tracebackhide__ = True
    told = not alone
    for merged in sorted(outcome.subtests, key=lambda m: not m.subtest.status.bad):
        subtest = merged.subtest
        text = "" if told or not subtest.status.bad else _text(case, outcome)
        told = told or subtest.status.bad
        params: dict[str, Any] = {name: _Shown(value) for name, value in subtest.params}
        message = {"msg": subtest.message} if subtest.message is not None else {}
        with case.subTest(**message, **params):
            _raise_subtest(case, subtest, text or _short(merged), outcome)


def _raise_subtest(case: unittest.TestCase, subtest: SubtestOutcome, text: str, outcome: TestOutcome) -> None:
    __tracebackhide__ = True
    if subtest.status is Status.SKIPPED:
        raise unittest.SkipTest(subtest.skip_reason or "")
    if subtest.status.bad:
        raise _problem(case, subtest.status, text, outcome)


def _short(merged: MergedSubtest) -> str:
    """The message of a further failed sub-test: its ranks and its traceback."""
    error = merged.subtest.error
    return f"on {ranks_text(merged.ranks)}:\n{error.traceback if error else merged.subtest.status.value}"


def _warn_of_leaks(case: unittest.TestCase, outcome: TestOutcome) -> None:
    if environment.settings().strict:
        strict = replace(
            outcome, status=Status.ERROR, reason=f"ranks left something behind ({EnvVar.STRICT}=1)"
        )
        raise RankError(_text(case, strict), strict)
    _warn(case, outcome.warnings, RankLeakWarning)


def _warn(case: unittest.TestCase, lines: Sequence[str], category: type[Warning]) -> None:
    """Warns at the test's method, which is the code that the lines are about."""
    text = f"{case.id()}: {'; '.join(lines)}"
    code = getattr(inspect.unwrap(getattr(case, case._testMethodName)), "__code__", None)
    if code is None:
        warnings.warn(text, category, stacklevel=2)
    else:
        warnings.warn_explicit(text, category, code.co_filename, code.co_firstlineno)
