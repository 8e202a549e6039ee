"""``run``, ``start``: a Python command in a fork of an interpreter that has imported torch, for tests.

A new interpreter takes one to two processor-seconds to import torch; a fork takes a few hundredths.
``run_runner`` does the same for runs of tests, which import no torch but much of the tree. A command
sees what a new interpreter would show it: directory, environment, arguments, search path, standard streams,
``__main__``, exit code. What differs: the modules are imported from the beginning, the parent is the server,
and what lives until the end is not destroyed. So a test of how a program starts or is taken apart, of what it
imports, or of who its parent is, takes a new interpreter.
"""

from __future__ import annotations

import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import time
import unittest
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from harness.system.intra_op_threads import SINGLE_THREADED
from suites.selftest.warm_server.requests import HEAD
from suites.selftest.warm_server.start_variables import starts_alike

_SERVER = Path(__file__).with_name("warm_server")
# Which interpreters that a command starts are forks, by the words of the server.
CHILDREN, FIRST_CHILD = "children", "first-child"
# What controllers, zygotes and workers import, and test modules from harness.
RUNNER = (
    "harness.runner.command",
    "harness.runner.worker_process.zygote",
    "harness.cases.multiprocess",
    "harness.report.junit",
)


def run(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    merged: bool = True,
    imports: Sequence[str] = (),
    children: bool = True,
) -> subprocess.CompletedProcess[str]:
    """Runs ``python *arguments`` to its end, with nothing on standard input.

    Raises ``subprocess.TimeoutExpired`` after ``timeout`` seconds. Standard error goes into ``stdout`` if
    ``merged``. ``imports`` are modules of torch that have been imported, too. With ``children`` the Python
    interpreters that the command starts are forks of it: not for tests of what these inherit. Both are the
    same in all calls of a test module.
    """
    process = start(arguments, cwd=cwd, env=env, merged=merged, imports=imports, children=children)
    return _end_of(process, timeout)


def start(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    merged: bool = True,
    imports: Sequence[str] = (),
    children: bool = True,
) -> Started | subprocess.Popen[str]:
    """Starts ``python *arguments`` as ``run`` does, and returns while it runs."""
    server = _Server.of_module(("torch", *imports), CHILDREN if children else "", env)
    if not server.can_be(arguments, env):
        return start_new(arguments, cwd=cwd, env=env, merged=merged)
    return Started(server.control, arguments, cwd, env, merged)


def run_runner(
    arguments: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    timeout: float,
    imports: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Does what ``run`` does for a run of tests, with standard error apart.

    Without torch, unless it is in ``imports``. The controller is a fork of an interpreter that has imported
    what controllers and zygotes do, and so is its first zygote, which has nothing of the controller. Not for
    tests of what these import.
    """
    server = _Server.of_module((*imports, *RUNNER), FIRST_CHILD, env)
    if not server.can_be(arguments, env):
        return run_new(arguments, cwd=cwd, env=env, timeout=timeout, merged=False)
    return _end_of(Started(server.control, arguments, cwd, env, merged=False), timeout)


def run_new(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], timeout: float, merged: bool = True
) -> subprocess.CompletedProcess[str]:
    """Does what ``run`` does, in a new interpreter."""
    return _end_of(start_new(arguments, cwd=cwd, env=env, merged=merged), timeout)


def start_new(
    arguments: Sequence[str], *, cwd: Path, env: Mapping[str, str], merged: bool = True
) -> subprocess.Popen[str]:
    """Does what ``start`` does, in a new interpreter."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT if merged else subprocess.PIPE,
        text=True,
    )


def _end_of(process: Started | subprocess.Popen[str], timeout: float) -> subprocess.CompletedProcess[str]:
    """Waits for the end of a process, and kills it where that takes longer."""
    with process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.returncode, out, err)


class Started:
    """Owns a command that runs in a fork of a server: so much of ``subprocess.Popen`` as tests need."""

    def __init__(
        self,
        control: socket.socket,
        arguments: Sequence[str],
        cwd: Path,
        env: Mapping[str, str],
        merged: bool,
    ) -> None:
        self.args = [sys.executable, *arguments]
        self.returncode: Any = None  # as of Popen: a number at the end
        request = json.dumps({"arguments": [*arguments], "cwd": str(cwd), "environ": {**env}}).encode()
        self._answers, theirs = socket.socketpair()
        pipes = [os.pipe() for _ in range(1 if merged else 2)]
        self._streams = [os.fdopen(reads, "rb", buffering=0) for reads, _ in pipes]
        with theirs, open(os.devnull) as null:
            control.sendall(len(request).to_bytes(HEAD, "big"))
            ends = [null.fileno(), pipes[0][1], pipes[-1][1], theirs.fileno()]
            socket.send_fds(control, [request], ends)
        for _, writes in pipes:
            os.close(writes)
        self.pid = self._number()

    def communicate(self, timeout: float) -> tuple[str, str | None]:
        """Returns what it printed, at its end. Raises ``subprocess.TimeoutExpired`` after so many seconds."""
        told = {stream.fileno(): b"" for stream in self._streams}
        for number, piece in _pieces(list(told), timeout, self.args):
            told[number] += piece
        self._wait()
        out, *err = (said.decode().replace("\r\n", "\n") for said in told.values())
        return out, err[0] if err else None

    def kill(self) -> None:
        """Ends it, unless it has ended."""
        if self.returncode is None and not select.select([self._answers], [], [], 0)[0]:
            os.kill(self.pid, signal.SIGKILL)

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *_: object) -> None:
        self._wait()
        self._answers.close()
        for stream in self._streams:
            stream.close()

    def _wait(self) -> None:
        if self.returncode is None:
            self.returncode = self._number()

    def _number(self) -> int:
        """A pid or an exit code."""
        return int.from_bytes(self._answers.recv(HEAD, socket.MSG_WAITALL), "big", signed=True)


class _Server:
    """Owns an interpreter of one test module, which ends with the module's tests."""

    _current: ClassVar[dict[str, _Server]] = {}  # one that forks a command's children, and so on

    def __init__(self, imports: Sequence[str], forking: str, env: Mapping[str, str]) -> None:
        self.imports, self.forking = tuple(imports), forking
        self._environ = {name: value for name, value in env.items() if name != "PYTHONPATH"}
        if forking:  # servers that fork are started with it
            self._environ |= SINGLE_THREADED
        self.control, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", _SERVER.name, str(theirs.fileno()), forking, *imports],
                cwd=_SERVER.parent,
                env=self._environ,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    @classmethod
    def of_module(cls, imports: Sequence[str], forking: str, env: Mapping[str, str]) -> _Server:
        """Returns the server of the module whose tests run; starts it at the first call, for whose variables
        it is."""
        kind = "runner" if forking == FIRST_CHILD else "torch"
        if kind not in cls._current:
            cls._current[kind] = cls(imports, forking, env)
            unittest.addModuleCleanup(cls._end, kind)
        server = cls._current[kind]
        asked = (server.imports, server.forking)
        assert asked == (tuple(imports), forking), f"a test module has one server ({kind})"
        return server

    @classmethod
    def _end(cls, kind: str) -> None:
        server = cls._current.pop(kind)
        server.control.close()
        server._process.wait()

    def can_be(self, arguments: Sequence[str], env: Mapping[str, str]) -> bool:
        """Whether a fork of the server is what a new interpreter would be: the same options and variables."""
        if arguments[0].startswith("-") and arguments[0] not in ("-m", "-c"):
            return False
        if Path(arguments[0]).name == "run_tests.py" and not self.forking:  # imports no torch itself
            return False
        return starts_alike(env, self._environ)


def _pieces(numbers: list[int], timeout: float, args: Sequence[str]) -> Iterator[tuple[int, bytes]]:
    """Yields what comes from descriptors until all are at their ends."""
    end = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for number in numbers:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, end - time.monotonic()))
            if not ready:
                raise subprocess.TimeoutExpired(args, timeout)
            for key, _ in ready:
                piece = os.read(key.fd, 1 << 16)
                yield key.fd, piece
                if not piece:
                    selector.unregister(key.fd)
