"""Runs a batch of tests through pytest in a worker, and reports each like a test that unittest runs.

Which tests run, in which order, how often and until when stays the runner's matter; pytest calls each with
its fixtures, and tears those down that the next one does not share.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Generator, Iterable
from time import monotonic, time  # by name, because a test may leave ``time.time`` patched

import pytest

from harness.conformance import cells
from harness.errors import InterruptReport
from harness.impact import recorder
from harness.outcomes import Status
from harness.record import to_json
from harness.runner.messages import Began, Ended, Fork, Item
from harness.runner.pytest_modules.pytest_reports import add_report, keep_error, note_case
from harness.runner.pytest_modules.pytest_session import QuietPlugin, rank_case, run_session, test_id
from harness.runner.worker_process.listing import source_of_function
from harness.runner.worker_process.unittest_result import RunningTest, Trouble, details_of, headline
from harness.runner.worker_process.warm_up import WarmUps
from harness.runner.worker_process.worker import WorkerChannel, post_mortem
from harness.system import originals, posix
from harness.system.python_warnings import TOLD, line_of, with_warning


def run_by_pytest(order: Fork, file: str, reporter: WorkerChannel) -> None:
    """Runs the items of a ``Fork``, which are all of one file.

    A session that a test ends, by Ctrl-C or ``pytest.exit``, is followed by another for the rest.
    """
    left = list(order.items) if reporter.claim() else []
    warm_ups = WarmUps(order.items[0].module)
    while left:
        plugin = BatchPlugin(order, left, reporter, warm_ups)
        run_session(file, plugin)
        if plugin.stopped:
            return
        if not plugin.ran:  # another session would be like this one
            plugin.report_missing()


class BatchPlugin(QuietPlugin):
    """Runs the items in ``left``, of which the first is claimed, and takes each out that it has reported.

    ``stopped`` is True where a failure has ended the batch, and ``ran`` where pytest has come to the tests.
    """

    def __init__(self, order: Fork, left: list[Item], reporter: WorkerChannel, warm_ups: WarmUps) -> None:
        self._order, self._left, self._reporter = order, left, reporter
        self._running = RunningTest("")
        self._warm_ups = warm_ups
        self._log_suffix = ""
        self._session: pytest.Session | None = None
        self._errors: list[str] = []
        self._patches: Iterable[originals.Patch] = ()
        self.stopped = False
        self.ran = False

    # -- the session

    @pytest.hookimpl(trylast=True)
    def pytest_configure(self, config: pytest.Config) -> None:
        """Has pytest call ``tearDown`` only after a debugger has looked at the test."""
        super().pytest_configure(config)
        config.option.usepdb = self._order.post_mortem

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keeps why the file, which pytest could collect in the zygote, cannot be collected here."""
        if not report.passed:
            self._errors.append(report.longreprtext)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs the batch's items, in the batch's order, until one leaves the session unfit for another."""
        self._session = session
        self.ran = not self._errors
        found = {test_id(item, self._left[0].module): item for item in session.items}
        self._start_server(found[item.id] for item in self._left if item.id in found)
        self._patches = originals.restore()
        while self.ran and self._left and not self.stopped and self._run(found):
            continue
        originals.apply(self._patches)
        return True

    def _start_server(self, items: Iterable[pytest.Item]) -> None:
        """Starts the server of the batch's ranks, if it has any, before a fixture changes this process."""
        on_ranks = (case for case in map(rank_case, items) if hasattr(case, "start_server"))
        first = next(on_ranks, None)
        if first is not None:
            first.start_server()

    def _run(self, found: dict[str, pytest.Item]) -> bool:
        """Runs the next item; returns whether the session can run another."""
        item = self._next()
        test = found.get(item.id)
        if test is None:
            self._report_missing(item)
            return True
        following = found.get(self._left[0].id) if self._left else None
        self._begin(item, RunningTest(item.id, *source_of_function(getattr(test, "obj", None))))
        with recorder.during(item.module):  # its fixtures are set up in whichever of its tests is the first
            interruption = self._call(test, following)
        if interruption is not None:
            report = InterruptReport.of(interruption)
            if report is not None:
                self._running.outcome = report.outcome
            reason, details = headline(interruption), details_of(interruption)
            self._running.troubles.append(Trouble(Status.ERROR, reason, details))
        self._end(item)
        return interruption is None

    def _next(self) -> Item:
        """Takes the next item, and claims the one behind it, for which pytest keeps fixtures."""
        item = self._left.pop(0)
        if self._left and not self._reporter.claim():
            self._left.clear()
        return item

    def _call(self, test: pytest.Item, following: pytest.Item | None) -> BaseException | None:
        """Has pytest run a test; returns what has ended the session, which only the controller may end."""
        originals.apply(self._patches)
        try:
            test.config.hook.pytest_runtest_protocol(item=test, nextitem=following)
        except BaseException as error:  # noqa: BLE001 - see the docstring; it is reported with its traceback
            return error
        finally:
            self._patches = originals.restore()
        return None

    def _begin(self, item: Item, running: RunningTest) -> None:
        self._reporter.mark(item.seq)
        self._running = running
        self._log_suffix = item.attempt.suffix
        cells.begin_test(item.id)
        self._reporter.send(Began(item.seq, running.started_s))
        self._warm_ups.begin()
        running.started_at, running.started_s = time(), monotonic()

    def _end(self, item: Item) -> None:
        self._running.duration_s = monotonic() - self._running.started_s
        posix.flush_streams()
        record = self._warm_ups.noted(self._running.record(keeps_calls=self._order.keeps_calls))
        self._reporter.send(Ended(item.seq, to_json(record)))
        self.stopped = self._order.stop_at_failure and not record.ok

    def report_missing(self) -> None:
        """Reports every item that is left as one that pytest does not find."""
        while self._left and not self.stopped:
            self._report_missing(self._next())

    def _report_missing(self, item: Item) -> None:
        self._begin(item, RunningTest(item.id))
        why = "\n\n".join(self._errors) or f"pytest finds no test {item.id} in {item.module} any more"
        self._running.troubles.append(Trouble(Status.ERROR, why.strip().rsplit("\n", 1)[-1], why))
        self._end(item)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        """Tells a test on ranks which attempt this is."""
        case = rank_case(item)
        if case is not None and hasattr(case, "rank_log_suffix"):
            case.rank_log_suffix = self._log_suffix

    # -- reports

    @pytest.hookimpl
    def pytest_warning_recorded(
        self, warning_message: warnings.WarningMessage, when: str, nodeid: str
    ) -> None:
        """Adds the line of a Python warning, which pytest writes nowhere else, to the running test."""
        category, message = warning_message.category, warning_message.message
        if when == "runtest" and not issubclass(category, TOLD):
            place = (warning_message.filename, warning_message.lineno, os.getcwd())
            line = line_of(message, category, *place)
            self._running.warnings = with_warning(self._running.warnings, line)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Keeps the exception of the phase, and the outcome of the test's ranks."""
        if call.when == "call":
            note_case(self._running, rank_case(item))
        report = yield
        keep_error(report, call)
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds the report of a phase or a sub-test to the running test, and opens the debugger."""
        error = add_report(self._running, report)
        if not report.failed:
            return
        if self._order.post_mortem and error is not None:
            post_mortem(self._reporter, (type(error), error, error.__traceback__))
        if self._order.stop_at_failure and self._session is not None:
            self._session.shouldfail = "stopped at the first failure"  # tears all fixtures down now
