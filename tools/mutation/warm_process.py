"""The process that has imported torch and the tests, and runs each attempt in a fork of itself.

    forks.py --- Attempt ---> this process: imports the modules of its tests, once
                                 | fork
                                 v
                              other code for the mutated function; tests --> ranks have it too
    forks.py <--- Outcome --- this process: waits for reports, the fork's end, deadlines and forks.py's end

``python -m tools.mutation.warm_process FD ROOT FILE...``: a connection, a directory, and the
files below it that are mutated. A Python that a test starts afresh imports the mutant, as ``planting.py`` has
it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import tempfile
import time
import types
import unittest
from multiprocessing.connection import Connection, Pipe, wait
from pathlib import Path
from typing import Any, NoReturn

from harness.runner.worker_process.listing import list_module
from harness.runner.worker_process.worker import starts_ranks
from harness.settings import EnvVar
from harness.system import posix
from tools.mutation import planting
from tools.mutation.attempts import Attempt, Began, Done, Mutant, Outcome, Ran
from tools.mutation.replacing import Changes, Functions, NotReplaceable, changed_code
from tools.mutation.sites import mutated

# Seconds after a test's deadline until its fork is killed: the harness ends ranks at the deadline itself.
ENDING_S = 5.0
# The seconds for a fork to plant its mutant and to start its first test.
START_S = 60.0
# Characters of a failure's text that are kept, from its end.
KEPT = 400

_ExcInfo = tuple[type[BaseException], BaseException, types.TracebackType] | tuple[None, None, None]


class WarmProcess:
    """The loop: takes attempts from ``control`` until that is closed."""

    def __init__(self, control: Connection, root: Path, files: list[str]) -> None:
        self._control = control
        self._functions = Functions(str(root / file) for file in files)
        self._files = files
        self._tests: dict[str, unittest.TestCase] = {}
        self._modules: set[str] = set()
        self._originals: dict[str, types.CodeType] = {}
        self._last: tuple[Mutant, Changes] | None = None

    def run(self) -> None:
        """Imports what is mutated, so that no fork has to, and runs attempts, one after another."""
        with self._functions:
            for file in self._files:
                try:
                    importlib.import_module(planting.module_name(file))
                except Exception as error:  # noqa: BLE001 - of another system's or library's module
                    print(f"{file} cannot be imported here: {error!r}", file=sys.stderr)
        with contextlib.suppress(EOFError):
            while True:
                attempt = self._control.recv()
                self._import({test.rsplit(".", 2)[0] for test in attempt.tests} - self._modules)
                self._control.send(self._outcome(attempt))

    def _import(self, modules: set[str]) -> None:
        if not modules:
            return
        gc.unfreeze()
        with self._functions:
            for name in sorted(modules):
                self._tests.update(list_module(name).tests)
        self._modules |= modules
        gc.collect()
        gc.freeze()

    def _outcome(self, attempt: Attempt) -> Outcome:
        """What came of an attempt.

        Tests with ranks get a fork of their own: others leave threads, and ranks start slowly then.
        """
        try:
            changes = self._changes(attempt.mutant) if attempt.mutant else []
        except NotReplaceable as error:
            return Outcome((), str(error))
        outcome = Outcome(())
        for ranks in (False, True):
            tests = [t for t in attempt.tests if (t in self._tests and starts_ranks(self._tests[t])) is ranks]
            if tests and (attempt.to_the_end or not outcome.failed):
                outcome = Outcome(outcome.ran + self._forked(attempt, tests, changes))
        return outcome

    def _changes(self, mutant: Mutant) -> Changes:
        """What is to be changed here for a mutant; kept until the next one comes."""
        if self._last is None or self._last[0] != mutant:
            before = self._compiled(mutant.path)
            tree = mutated(Path(mutant.path).read_text(encoding="utf-8"), mutant.name)
            after = compile(tree, mutant.path, "exec", dont_inherit=True)
            self._last = mutant, self._functions.to_change(mutant.path, *changed_code(before, after))
        return self._last[1]

    def _compiled(self, path: str) -> types.CodeType:
        if path not in self._originals:
            source = Path(path).read_text(encoding="utf-8")
            self._originals[path] = compile(source, path, "exec", dont_inherit=True)
        return self._originals[path]

    def _forked(self, attempt: Attempt, tests: list[str], changes: Changes) -> tuple[Ran, ...]:
        receiver, sender = Pipe(duplex=False)
        with tempfile.TemporaryDirectory(prefix="fork-", ignore_cleanup_errors=True) as directory, receiver:
            pid = os.fork()
            if pid == 0:
                receiver.close()
                self._control.close()
                _guarded(_Fork(attempt, tests, changes, self._tests, sender), directory)
            sender.close()
            pidfd = os.pidfd_open(pid)
            try:
                return self._watched(receiver, pidfd, attempt)
            finally:
                os.close(pidfd)
                _end(pid)

    def _watched(self, receiver: Connection, pidfd: int, attempt: Attempt) -> tuple[Ran, ...]:
        """What a fork reports until it says that it is done, ends, or a test is overdue."""
        ran: list[Ran] = []
        running, began, deadline = "", time.monotonic(), time.monotonic() + START_S
        while True:
            ready = wait([receiver, pidfd, self._control], max(0.0, deadline - time.monotonic()))
            if self._control in ready:  # nothing is sent meanwhile: forks.py is gone
                raise EOFError
            message = None
            if receiver in ready:
                with contextlib.suppress(EOFError, OSError):
                    message = receiver.recv()
            if isinstance(message, Done):
                return tuple(ran)
            if isinstance(message, Began):
                running, began = message.test, time.monotonic()
                deadline = began + attempt.timeout_s + ENDING_S
            elif isinstance(message, Ran):
                running, deadline = "", time.monotonic() + START_S
                ran.append(message)
            else:
                words = "its process ended" if ready else f"not at its end after {attempt.timeout_s:g} s"
                seconds = time.monotonic() - began
                return (*ran, Ran(running or "?", seconds, words))


def _end(pid: int) -> None:
    """Kills a fork and all that it has left: its ranks, their servers, what tests started."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    while left := posix.children():
        for orphan in left:
            with contextlib.suppress(ProcessLookupError, ChildProcessError):
                os.kill(orphan, signal.SIGKILL)
                os.waitpid(orphan, 0)


# -- in the fork


class _Fork:
    def __init__(
        self,
        attempt: Attempt,
        tests: list[str],
        changes: Changes,
        known: dict[str, unittest.TestCase],
        sender: Connection,
    ) -> None:
        self._attempt = attempt
        self._tests = tests
        self._changes = changes
        self._known = known
        self._sender = sender

    def run(self, directory: str) -> None:
        """Plants the mutant and runs the tests; files that they leave are in the directory."""
        gc.enable()
        tempfile.tempdir = os.environ["TMPDIR"] = directory
        os.environ[EnvVar.TIMEOUT] = f"{self._attempt.timeout_s:g}"
        if self._attempt.mutant is not None:
            os.environ.update(planting.environ_for_mutant(self._attempt.mutant.name))
        for function, code in self._changes:
            function.__code__ = code
        result = Reporting(self._sender)
        result.failfast = not self._attempt.to_the_end
        unittest.TestSuite(self._known.get(test, _Missing(test)) for test in self._tests).run(result)
        self._sender.send(Done())


def _guarded(fork: _Fork, directory: str) -> NoReturn:
    try:
        os.setsid()
        posix.die_with_parent(signal.SIGKILL)
        fork.run(directory)
    finally:  # whatever was raised: the frames below are the parent's
        os._exit(0)


class _Missing(unittest.TestCase):
    """Stands for a test that its module has not, or that cannot be imported."""

    def __init__(self, name: str) -> None:
        super().__init__("report")
        self._name = name

    def id(self) -> str:
        """The id of the test that is missing."""
        return self._name

    def report(self) -> None:
        """Fails."""
        raise LookupError(f"there is no test {self._name}")


class Reporting(unittest.TestResult):
    """Sends what tests do as they do it; failures of a class's fixture are those of a test of that name."""

    def __init__(self, sender: Connection) -> None:
        super().__init__()
        self._sender = sender
        self._began = 0.0
        self._words = ""
        self._running = False

    def startTest(self, test: unittest.TestCase) -> None:
        """Says that it begins."""
        super().startTest(test)
        self._began, self._words, self._running = time.monotonic(), "", True
        self._sender.send(Began(test.id()))

    def stopTest(self, test: unittest.TestCase) -> None:
        """Says how it ended."""
        super().stopTest(test)
        self._running = False
        self._sender.send(Ran(test.id(), time.monotonic() - self._began, self._words))

    def _bad(self, test: unittest.TestCase, words: str) -> None:
        self._words = words.strip()[-KEPT:] or "failed"
        if not self._running:
            self._sender.send(Ran(test.id(), 0.0, self._words))

    def addError(self, test: unittest.TestCase, err: _ExcInfo) -> None:
        """Keeps the end of what it says."""
        super().addError(test, err)
        self._bad(test, self.errors[-1][1])

    def addFailure(self, test: unittest.TestCase, err: _ExcInfo) -> None:
        """Keeps the end of what it says, as for an error."""
        super().addFailure(test, err)
        self._bad(test, self.failures[-1][1])

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:
        """A failing part of a test is its failure."""
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._bad(test, (self.failures + self.errors)[-1][1])

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:
        """Is a failure."""
        super().addUnexpectedSuccess(test)
        self._bad(test, "unexpected success")


def main(arguments: list[str]) -> None:
    """The entry point: see the head of this file."""
    posix.input_from_null()
    posix.adopt_orphans()
    gc.disable()
    WarmProcess(Connection(int(arguments[0])), Path(arguments[1]), arguments[2:]).run()


if __name__ == "__main__":
    main(sys.argv[1:])
