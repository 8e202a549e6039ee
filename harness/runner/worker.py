"""What runs inside a worker: a batch of tests, one after the other, each with its own report.

A worker is forked from the zygote with the test modules loaded. It tells the controller when a test begins
and what it came to, runs unittest's fixtures around the tests that share them, and leaves by ``_exit``.
"""

from __future__ import annotations

import contextlib
import os
import pdb
import socket
import sys
import traceback
import unittest
from collections.abc import Callable, Iterator, Mapping
from time import monotonic, time  # by name, for a test may leave the module's patched
from typing import NoReturn

from harness import coverage_hook
from harness.errors import RanksInterrupted
from harness.outcomes import Status
from harness.record import to_json
from harness.runner.listing import list_module, source_of
from harness.runner.messages import Began, Debugging, Done, Ended, Fork, Item, Message, encode
from harness.runner.output_capture import marker_line
from harness.runner.unittest_result import (
    ExcInfo,
    RecordingResult,
    RunningTest,
    Trouble,
    details_of,
    headline,
    users_traceback,
)
from harness.system import closing, intra_op_threads, posix
from harness.wire import send_frame


class WorkerChannel:
    """The worker's voice: messages to the controller, markers on its output."""

    def __init__(self, channel: socket.socket, output: int, marker: str | None) -> None:
        """``output`` is a descriptor of the controller's pipe that tests do not know; ``marker`` is None
        where what they print goes elsewhere."""
        self._channel = channel
        self._output = output
        self._marker = marker
        self._pid = os.getpid()

    def send(self, message: Message) -> None:
        """Sends; ends the process where there is nobody to hear it, or where this is not the worker itself
        but a child that a test forked and let return."""
        if os.getpid() != self._pid:
            os._exit(1)
        try:
            send_frame(self._channel, encode(message))
        except OSError:
            os._exit(1)

    def mark(self, seq: int) -> None:
        """Separates the output of what comes from that of what was before."""
        posix.flush_streams()
        if self._marker is not None:
            with contextlib.suppress(OSError):  # a test closed every descriptor that there is
                os.write(self._output, marker_line(self._marker, seq))


class FixtureSuite(unittest.TestSuite):
    """unittest's handling of class and module fixtures, one step at a time; each may be left once more.

    The steps are ``TestSuite``'s own, whose names have an underscore but have not changed since Python 2.7.
    """

    _left: type | None = None

    def enter_module(self, test: unittest.TestCase, result: RecordingResult) -> None:
        """Sets up the test's module where that is due."""
        self._handleModuleFixture(test, result)  # type: ignore[attr-defined]  # typeshed leaves these out

    def enter_class(self, test: unittest.TestCase, result: RecordingResult) -> bool:
        """Sets up the test's class where that is due; False where the test must not run."""
        self._handleClassSetUp(test, result)  # type: ignore[attr-defined]  # as above
        result._previousTestClass = type(test)  # type: ignore[attr-defined]  # as above
        self._left = None
        failed = getattr(type(test), "_classSetupFailed", False) or getattr(
            result, "_moduleSetUpFailed", False
        )
        return not failed

    def leave_class(self, test: unittest.TestCase | None, result: RecordingResult) -> None:
        """Tears down the class that the next test, or None for the end, does not share."""
        previous = getattr(result, "_previousTestClass", None)
        if previous in (self._left, type(test)):
            return
        self._left = previous
        self._tearDownPreviousClass(test, result)  # type: ignore[attr-defined]  # as above

    def leave_module(self, test: unittest.TestCase | None, result: RecordingResult) -> None:
        """Tears down the module that the next test, or None for the end, does not share."""
        previous = getattr(result, "_previousTestClass", None)
        if previous is not None and (test is None or previous.__module__ != type(test).__module__):
            try:
                self._handleModuleTearDown(result)  # type: ignore[attr-defined]  # as above
            finally:
                result._previousTestClass = None  # type: ignore[attr-defined]  # or it would be left again


class BatchRunner:
    """Runs the items of a ``Fork``.

    A test is reported only once the fixtures that end with it are torn down, so that their failure, and a
    crash or a hang in them, counts for the last test that used them.
    """

    def __init__(self, order: Fork, tests: Mapping[str, unittest.TestCase], reporter: WorkerChannel) -> None:
        self._order = order
        self._tests = dict(tests)
        self._reporter = reporter
        self._suite = FixtureSuite()
        self._result = RecordingResult(self._post_mortem if order.post_mortem else None)
        self._open: tuple[Item, RunningTest] | None = None
        self._fixture_trouble: tuple[list[Trouble], list[str]] = ([], [])

    def run(self) -> None:
        """Runs the items, all of them unless it is to stop at a failure, and tears everything down."""
        for item in self._order.items:
            if self._stops():
                break
            test = self._find(item)
            self._leave(test)
            if self._stops():  # because of what was torn down just now
                break
            self._report_open()
            self._run_one(item, test)
        self._leave(None)
        self._report_open()

    def _stops(self) -> bool:
        """True where the test that is not yet reported is to be the last one."""
        return self._order.stop_at_failure and self._open is not None and not self._open[1].record().ok

    def _leave(self, test: unittest.TestCase | None) -> None:
        """Tears down what the test that is not yet reported shares with no later one; failures are its."""
        if self._open is not None:
            item, running = self._open
            with self._contained(), running.timed(item.class_key):
                self._suite.leave_class(test, self._result)
            with self._contained(), running.timed(item.module):
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
        self._reporter.send(Began(item.seq, running.started_s))
        with self._contained():
            if not self._enter(item, test, running):
                return
            running.started_at, running.started_s = time(), monotonic()
            try:
                test(self._result)
            finally:
                running.duration_s = monotonic() - running.started_s

    def _enter(self, item: Item, test: unittest.TestCase, running: RunningTest) -> bool:
        """Sets up a test's fixtures, in its time; what goes wrong counts for every test that needs them."""
        with running.timed(item.module):
            self._suite.enter_module(test, self._result)
        with running.timed(item.class_key):
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
        """What comes out of unittest is the test's error: a KeyboardInterrupt, for the batch is the
        controller's to end; a fixture's ``sys.exit``; what a test's own ``__repr__`` raises."""
        try:
            yield
        except BaseException as error:  # noqa: BLE001 - as above; it is reported with its traceback
            if isinstance(error, RanksInterrupted):
                self._result.running.outcome = error.outcome
            details = details_of((type(error), error, error.__traceback__))
            self._result.running.troubles.append(Trouble(Status.ERROR, headline(error), details))

    def _report_open(self) -> None:
        """Reports the test that is not yet reported, if there is one."""
        if self._open is None:
            return
        item, running = self._open
        self._open = None
        posix.flush_streams()
        self._reporter.send(Ended(item.seq, to_json(running.record())))

    def _post_mortem(self, err: ExcInfo) -> None:
        self._reporter.send(Debugging(True))
        kind, error, trace = err
        trace = users_traceback(error, trace)
        traceback.print_exception(kind, error, trace)
        pdb.post_mortem(trace)
        self._reporter.send(Debugging(False))


class _Missing(unittest.TestCase):
    """Stands for a test that discovery knew and that is not there any more."""

    def __init__(self, item: Item, error: str) -> None:
        super().__init__("report")
        self._item = item
        self._error = error

    def report(self) -> None:
        """Fails with the reason."""
        if self._error:
            raise ImportError(f"{self._item.module} does not import in a worker:\n{self._error}")
        raise LookupError(f"{self._item.module} has no test {self._item.id} any more")


def run_batch(
    order: Fork, tests: Mapping[str, unittest.TestCase], channel: socket.socket, output: int
) -> None:
    """Runs a batch in this process, a worker; reports on ``channel``, and writes markers to ``output``."""
    reporter = WorkerChannel(channel, output, None if order.stream or order.terminal else order.marker)
    has_ranks = any(starts_ranks(tests[item.id]) for item in order.items if item.id in tests)
    if order.threads is not None and not has_ranks:  # a pool of threads would keep it from forking ranks
        intra_op_threads.set_in_torch(intra_op_threads.asked_for(os.environ) or order.threads)
    if not order.terminal and not os.environ.get("PYTHONBREAKPOINT"):
        sys.breakpointhook = refuse_breakpoint
    BatchRunner(order, tests, reporter).run()
    posix.flush_streams()
    reporter.send(Done())


def refuse_breakpoint(*_: object, **__: object) -> NoReturn:
    """Says how to get a debugger, in place of one that reads the end of its input at once."""
    raise RuntimeError(
        "breakpoint() in a test: tests have no terminal. run_tests.py --pdb gives it this one, with all "
        "time limits off"
    )


def starts_ranks(test: unittest.TestCase) -> bool:
    """Whether a test starts ranks as processes, be it one: by the method that all harnesses call for it."""
    return hasattr(test, "_spawn_processes")


def guarded(body: Callable[[], None]) -> int:
    """Runs a forked child's body; its exit code. Nothing may return into the parent's frames."""
    try:
        body()
    except BaseException:  # noqa: BLE001 - the harness's own bug: said on the worker's output, read by the controller
        traceback.print_exc()
        return 3
    finally:
        closing.close_all()  # the servers of ranks, and the directory of temporary files
        coverage_hook.flush()
        posix.flush_streams()
    return 0
