"""``run_batch``, the code of a worker process: runs a batch of tests one after the other and reports each.

A worker is forked from the zygote, which has imported the test modules. It tells the controller when a test
begins and ends, runs unittest's fixtures around the tests that share them, and ends by ``_exit``.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import pdb
import socket
import sys
import traceback
import unittest
from collections.abc import Callable, Iterable, Iterator, Mapping
from time import monotonic, time  # by name, because a test may leave ``time.time`` patched
from typing import NoReturn

from harness import coverage_hook
from harness.conformance import cells
from harness.errors import InterruptReport, RankTestError
from harness.impact import recorder
from harness.outcomes import Status
from harness.record import to_json
from harness.report.failure import debugger_hint
from harness.runner.messages import Began, Debugging, Done, Ended, Fork, Item, Message, encode
from harness.runner.worker_process.listing import PytestTest, list_module, source_of
from harness.runner.worker_process.output_capture import marker_line
from harness.runner.worker_process.unittest_result import (
    ExcInfo,
    RecordingResult,
    RunningTest,
    Trouble,
    details_of,
    headline,
)
from harness.runner.worker_process.warm_up import WarmUps
from harness.system import closing, intra_op_threads, originals, posix
from harness.system.python_warnings import collected
from harness.tracebacks import show_users_frames
from harness.wire import send_frame


class WorkerChannel:
    """Sends messages to the controller, claims tests, and writes markers between the outputs of tests."""

    _claims: int | None = None
    _asks = False

    def __init__(
        self,
        channel: socket.socket,
        output: int,
        marker: str | None,
        claims: int | None = None,
        *,
        asks: bool = False,
    ) -> None:
        """``output`` is a descriptor of the output pipe that tests do not use themselves; ``marker`` is None
        where the output of tests is not captured. ``claims`` is the claim pipe; without one, all is ours.
        ``asks`` is as in ``Fork``."""
        self._claims, self._asks = claims, asks
        self._channel = channel
        self._output = output
        self._marker = marker
        self._pid = os.getpid()

    def send(self, message: Message) -> None:
        """Sends a message to the controller.

        Ends this process where the controller is gone, or where this is not the worker but a child that a
        test forked and that returned into the worker's code.
        """
        if os.getpid() != self._pid:
            os._exit(1)
        try:
            send_frame(self._channel, encode(message))
        except OSError:
            os._exit(1)

    def claim(self) -> bool:
        """Claims the next item of the batch; False where the controller has taken back all that are left."""
        if self._claims is None:
            return True
        try:
            if self._asks:
                os.write(self._claims, b"?")
            return bool(os.read(self._claims, 1))
        except OSError:  # none is left, or a test has closed the pipe: others run the rest
            return False

    def mark(self, seq: int) -> None:
        """Writes the marker after which all output belongs to test ``seq``."""
        posix.flush_streams()
        if self._marker is not None:
            with contextlib.suppress(OSError):  # a test may have closed every descriptor
                os.write(self._output, marker_line(self._marker, seq))


class FixtureSuite(unittest.TestSuite):
    """unittest's handling of class and module fixtures, split into single steps.

    The steps are private methods of ``TestSuite`` that have not changed since Python 2.7.
    """

    _left: type | None = None

    def enter_module(self, test: unittest.TestCase, result: RecordingResult) -> None:
        """Sets up the test's module, unless that has been done."""
        self._handleModuleFixture(test, result)  # type: ignore[attr-defined]  # typeshed leaves these out

    def enter_class(self, test: unittest.TestCase, result: RecordingResult) -> bool:
        """Sets up the test's class, unless that has been done; returns False where the test must not run."""
        self._handleClassSetUp(test, result)  # type: ignore[attr-defined]  # typeshed leaves it out
        result._previousTestClass = type(test)  # type: ignore[attr-defined]  # typeshed leaves it out
        self._left = None
        failed = getattr(type(test), "_classSetupFailed", False) or getattr(
            result, "_moduleSetUpFailed", False
        )
        return not failed

    def leave_class(self, test: unittest.TestCase | None, result: RecordingResult) -> None:
        """Tears down the previous test's class, unless ``test`` has the same; always for None."""
        previous = getattr(result, "_previousTestClass", None)
        if previous in (self._left, type(test)):
            return
        self._left = previous
        self._tearDownPreviousClass(test, result)  # type: ignore[attr-defined]  # typeshed leaves it out

    def leave_module(self, test: unittest.TestCase | None, result: RecordingResult) -> None:
        """Tears down the previous test's module, unless ``test`` is in it; always for None."""
        previous = getattr(result, "_previousTestClass", None)
        if previous is not None and (test is None or previous.__module__ != type(test).__module__):
            try:
                self._handleModuleTearDown(result)  # type: ignore[attr-defined]  # typeshed leaves it out
            finally:
                result._previousTestClass = None  # type: ignore[attr-defined]  # not to tear it down twice


class BatchRunner:
    """Runs the items of a ``Fork``.

    A test is reported after the fixtures that it is the last to use have been torn down, so that a failure, a
    crash or a hang in them counts as that test's.
    """

    def __init__(self, order: Fork, tests: Mapping[str, unittest.TestCase], reporter: WorkerChannel) -> None:
        self._order = order
        self._tests = dict(tests)
        self._reporter = reporter
        self._suite = FixtureSuite()
        self._warm_ups = WarmUps(order.items[0].module)
        self._result = RecordingResult(self._post_mortem if order.post_mortem else None)
        self._open: tuple[Item, RunningTest] | None = None
        self._fixture_trouble: tuple[list[Trouble], list[str]] = ([], [])
        self._patches = (
            originals.restore()
        )  # those of modules, fixtures and tests, put in place for the tests

    def run(self) -> None:
        """Runs the items, with ``stop_at_failure`` up to the first failure, and tears everything down."""
        for item in self._order.items:
            if self._stops() or not self._reporter.claim():
                break
            test = self._find(item)
            self._leave(test)
            if self._stops():  # the fixtures that were torn down just now may have failed
                break
            self._report_open()
            self._run_one(item, test)
        self._leave(None)
        self._report_open()

    def take_warning(self, line: str) -> None:
        """Adds the line of a Python warning to the record of the running test."""
        if self._open is not None:
            self._result.take_warning(line)

    def _stops(self) -> bool:
        """True where the test that is not yet reported has failed, and a failure ends the batch."""
        return self._order.stop_at_failure and self._open is not None and not self._open[1].record().ok

    def _leave(self, test: unittest.TestCase | None) -> None:
        """Tears down fixtures that ``test`` does not share; errors count for the test not yet reported."""
        if self._open is not None:
            item, running = self._open
            with self._contained(), running.timed(item.class_key), recorder.during(item.class_key):
                self._suite.leave_class(test, self._result)
            with self._contained(), running.timed(item.module), recorder.during(item.module):
                self._suite.leave_module(test, self._result)

    def _find(self, item: Item) -> unittest.TestCase:
        test = self._tests.pop(item.id, None)
        if test is None:
            listing = list_module(item.module)
            self._tests.update(listing.tests)
            test = self._tests.pop(item.id, None) or _Missing(item, listing.error)
        return test

    def _run_one(self, item: Item, test: unittest.TestCase) -> None:
        self._reporter.mark(item.seq)
        running = RunningTest(item.id, *source_of(test, getattr(test, "_testMethodName", "")))
        self._open = (item, running)
        self._result.open(running)
        if starts_ranks(test):
            test.rank_log_suffix = item.attempt.suffix  # type: ignore[attr-defined]  # of a RankOrchestration
        cells.begin_test(item.id)
        self._reporter.send(Began(item.seq, running.started_s))
        with self._contained():
            if not self._enter(item, test, running):
                return
            self._warm_ups.begin()
            running.started_at, running.started_s = time(), monotonic()
            try:
                with recorder.during(item.id):
                    test(self._result)
            finally:
                running.duration_s = monotonic() - running.started_s

    def _enter(self, item: Item, test: unittest.TestCase, running: RunningTest) -> bool:
        """Sets up a test's fixtures; returns False where one failed or skipped, for this or an earlier test.

        The failure or skip counts for every test that needs the fixture.
        """
        with running.timed(item.module), recorder.during(item.module):
            self._suite.enter_module(test, self._result)
        with running.timed(item.class_key), recorder.during(item.class_key):
            entered = self._suite.enter_class(test, self._result)
        if entered:
            return True
        if running.troubles or running.skips:
            self._fixture_trouble = (list(running.troubles), list(running.skips))
        else:
            troubles, skips = self._fixture_trouble
            running.troubles += troubles
            running.skips += skips
        return False

    @contextlib.contextmanager
    def _contained(self) -> Iterator[None]:
        """The region of the tests' code: what it leaves patched is so again in the next such region only.

        Turns every exception that unittest lets through into an error of the running test. Those are
        KeyboardInterrupt (only the controller may end the batch), ``sys.exit`` in a fixture, and exceptions
        of a ``__repr__`` that a test defines.
        """
        originals.apply(self._patches)
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - see the docstring; it is reported with its traceback
            self._patches = originals.restore()
            report = InterruptReport.of(error)
            if report is not None:
                self._result.running.outcome = report.outcome
            details = details_of(error)
            self._result.running.troubles.append(Trouble(Status.ERROR, headline(error), details))
        else:
            self._patches = originals.restore()

    def _report_open(self) -> None:
        """Reports the test that is not yet reported, if there is one."""
        if self._open is None:
            return
        item, running = self._open
        self._open = None
        posix.flush_streams()
        record = self._warm_ups.noted(running.record(keeps_calls=self._order.keeps_calls))
        self._reporter.send(Ended(item.seq, to_json(record)))

    def _post_mortem(self, err: ExcInfo) -> None:
        post_mortem(self._reporter, err)


@originals.harness_code
def post_mortem(reporter: WorkerChannel, err: ExcInfo) -> None:
    """Opens a debugger where an exception was raised; meanwhile the controller leaves it the terminal.

    The ranks that failed have ended: instead of a debugger there is a line about how to get one in a rank.
    """
    error = err[1]
    if isinstance(error, RankTestError):
        if error.outcome is not None:
            hint = debugger_hint(error.outcome, "--pdb-rank")
            print(f"no debugger: the ranks of this test have ended; {hint}")
        return
    reporter.send(Debugging(True))
    show_users_frames(error)
    traceback.print_exception(type(error), error, error.__traceback__)
    pdb.post_mortem(error.__traceback__)
    reporter.send(Debugging(False))


class _Missing(unittest.TestCase):
    """Runs in place of a test that discovery found and that the module does not have any more."""

    def __init__(self, item: Item, error: str) -> None:
        super().__init__("report")
        self._item = item
        self._error = error

    def report(self) -> None:
        """Raises an error that tells why the test is missing."""
        if self._error:
            raise ImportError(f"{self._item.module} does not import in a worker:\n{self._error}")
        raise LookupError(f"{self._item.module} has no test {self._item.id} any more")


def run_batch(
    order: Fork, tests: Mapping[str, unittest.TestCase], channel: socket.socket, output: int, claims: int
) -> None:
    """Runs a batch in this worker process, reports on ``channel``, and writes markers to ``output``.

    ``claims`` is the claim pipe.
    """
    marker = None if order.stream or order.terminal else order.marker
    reporter = WorkerChannel(channel, output, marker, claims, asks=order.asks)
    found = {item.id: tests[item.id] for item in order.items if item.id in tests}
    has_ranks = any(starts_ranks(test) for test in found.values())
    if order.threads is not None and not has_ranks:  # a worker with a thread pool could not fork ranks
        intra_op_threads.set_in_torch(intra_op_threads.asked_for(os.environ) or order.threads)
    if not order.terminal and not os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook = refuse_breakpoint
    if not found:  # the zygote has not kept what importing the module left behind
        found = list_module(order.items[0].module).tests
    file = pytest_file(found.values())
    if file is not None:
        importlib.import_module("harness.runner.pytest_modules.pytest_worker").run_by_pytest(
            order, file, reporter
        )
    else:
        runner = BatchRunner(order, found, reporter)
        with collected(runner.take_warning):
            runner.run()
    posix.flush_streams()
    reporter.send(Done())


def refuse_breakpoint(*_: object, **__: object) -> NoReturn:
    """Raises an error that tells how to get a debugger; one without a terminal would end at once."""
    raise RuntimeError(
        "breakpoint() in a test: tests have no terminal. --pdb gives it this one, with all time limits off"
    )


def starts_ranks(test: unittest.TestCase) -> bool:
    """Whether a test starts ranks as processes: it then has upstream's method ``_spawn_processes``."""
    return hasattr(test.case if isinstance(test, PytestTest) else test, "_spawn_processes")


def pytest_file(tests: Iterable[unittest.TestCase]) -> str | None:
    """The file of tests that pytest has to run; None for those of unittest. A module has no tests of both."""
    return next((test.file for test in tests if isinstance(test, PytestTest)), None)


def guarded(body: Callable[[], None]) -> int:
    """Runs a forked child's body and returns its exit code; no exception may reach the parent's frames."""
    try:
        body()
    except BaseException:  # noqa: BLE001 - a bug of the harness, which the controller reads in the output
        traceback.print_exc()
        return 3
    finally:
        originals.restore()
        closing.close_all()  # the servers of ranks, and the directory of temporary files
        coverage_hook.flush()
        posix.flush_streams()
    return 0
