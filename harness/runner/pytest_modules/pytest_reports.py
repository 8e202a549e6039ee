"""Translates pytest's reports about a test into the ``RunningTest`` of which its record is made.

pytest reports setup, call and teardown, and each sub-test. What fails in the call is a failure, what fails
in a fixture an error, as in pytest.
"""

from __future__ import annotations

import unittest

import pytest

from harness.errors import RankTestError
from harness.outcomes import Status, TestOutcome
from harness.record import SubtestRecord
from harness.runner.worker_process.output_capture import elide
from harness.runner.worker_process.unittest_result import (
    DETAILS_MAX,
    RunningTest,
    Trouble,
    details_of,
    headline,
    is_mistake_alone,
    line_in,
)
from harness.watched_method import warning_of_pass

# What the text of a failed report without an exception begins with.
_STRICT = "[XPASS(strict)]"
# pytest's failure of a test that is marked by unittest's ``expectedFailure``, and passes.
_UNEXPECTED = "Unexpected success"


# The attribute of a report in which its exception travels from ``keep_error`` to ``add_report``: a plugin may
# hand reports on later, and the report of a sub-test is made of another one.
_ERROR = "harness_error"


def keep_error(report: pytest.TestReport, call: pytest.CallInfo[None]) -> None:
    """Keeps the exception that a report is about."""
    vars(report)[_ERROR] = call.excinfo.value if call.excinfo is not None else None


def add_report(running: RunningTest, report: pytest.TestReport) -> BaseException | None:
    """Adds what a report says, and returns the exception that it is about.

    The report has it no more then: pytest keeps reports, and with it they would keep all that the test had.
    """
    error: BaseException | None = vars(report).pop(_ERROR, None)
    _add(running, report, error)
    return error


def _add(running: RunningTest, report: pytest.TestReport, error: BaseException | None) -> None:
    if hasattr(report, "context"):
        _add_subtest(running, report, error)
    elif hasattr(report, "wasxfail"):
        _add_xfail(running, report, report.wasxfail.removeprefix("reason: "))
    elif report.skipped:
        running.skips.append(skip_reason(report))
    elif report.failed:
        _add_failure(running, report, error)
    elif report.when == "call" and report.passed:
        running.passed = True


def skip_reason(report: pytest.CollectReport | pytest.TestReport) -> str:
    """The reason in the report of a skip."""
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
    return reason.removeprefix("Skipped: ") or "no reason given"


def _add_xfail(running: RunningTest, report: pytest.TestReport, reason: str) -> None:
    """Adds the report of a test with the mark ``xfail``, which may pass where the mark is not strict."""
    if report.passed:
        running.passed = True
        running.warnings = (*running.warnings, f"passed, but is marked xfail{reason and ': '}{reason}")
    else:
        running.expected = reason or "marked as an expected failure"


def _add_failure(running: RunningTest, report: pytest.TestReport, error: BaseException | None) -> None:
    text = report.longreprtext
    if (text.startswith(_STRICT) and error is None) or (text.startswith(_UNEXPECTED) and error is not None):
        running.unexpected = True
    elif error is not None or not any(s.status.bad for s in running.subtests):
        running.troubles.append(_trouble(report, error))
    _note(running, error)


def _trouble(report: pytest.TestReport, error: BaseException | None, where: str = "") -> Trouble:
    shown = details_of(error) if error is not None and is_mistake_alone(error) else report.longreprtext
    text = "\n".join((shown, *_logs(report)))
    status = Status.FAILED if report.when == "call" else Status.ERROR
    if error is None:
        return Trouble(status, next(iter(text.strip().splitlines()), "failed"), text)
    if isinstance(error, RankTestError):  # its text has what all ranks did, and names the sub-test
        return Trouble(status, headline(error), details_of(error))
    where = where or ("" if report.when == "call" else f"{report.when}")
    return Trouble(status, f"{where}: {headline(error)}" if where else headline(error), text)


def _logs(report: pytest.TestReport) -> list[str]:
    """What was logged, which pytest shows below a failure. Other output comes by the worker's pipe."""
    return [f"--- {name} ---\n{text}" for name, text in report.sections if "log" in name and text]


def _note(running: RunningTest, error: BaseException | None) -> None:
    """Notes the outcome of the ranks, and the line of the test that failed."""
    if error is None:
        return
    if isinstance(error, RankTestError) and error.outcome is not None:
        running.outcome = error.outcome
    running.line = line_in(running.file, error.__traceback__) or running.line


def _add_subtest(running: RunningTest, report: pytest.TestReport, error: BaseException | None) -> None:
    """Adds a sub-test, of unittest's ``subTest`` or of pytest's ``subtests``."""
    running.subtests_run += 1
    if report.passed or hasattr(report, "wasxfail"):
        return
    description = _description(report)
    if report.skipped:
        running.add_subtest(SubtestRecord(description, Status.SKIPPED, skip_reason(report)))
        return
    told = isinstance(error, RankTestError) and error.outcome is not None and running.outcome is error.outcome
    trouble = _trouble(report, error, f"sub-test {description}")
    if not told:  # the text for an earlier sub-test has this one too
        running.troubles.append(trouble)
    running.add_subtest(SubtestRecord(description, Status.FAILED, elide(trouble.details, DETAILS_MAX // 10)))
    _note(running, error)


def _description(report: pytest.TestReport) -> str:
    """A sub-test's description as unittest prints it: ``[message] (x=1)``."""
    context = report.context
    message = f"[{context.msg}]" if context.msg is not None else ""
    parameters = ", ".join(f"{name}={value}" for name, value in context.kwargs.items())
    parts = (message, f"({parameters})" if parameters else "")
    return " ".join(part for part in parts if part) or "(<subtest>)"


def note_case(running: RunningTest, case: object) -> None:
    """Notes what a TestCase has after its method: the outcome of its ranks, a body that did not run."""
    outcome = getattr(case, "_harness_outcome", None)
    if isinstance(outcome, TestOutcome):
        running.outcome = outcome
    warning = warning_of_pass(case) if isinstance(case, unittest.TestCase) else None
    if warning is not None:
        running.warnings = (*running.warnings, warning)
