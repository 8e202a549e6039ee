"""Tests a server as the process that started it holds it, and the start of one in a new interpreter."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import unittest
from pathlib import Path
from typing import Any
from unittest import mock

from harness.system import posix
from harness.system.control_group import MemoryKills
from harness.system.intra_op_threads import SINGLE_THREADED
from harness.system.server_process import (
    Parent,
    ServerProcess,
    interpreter_flags,
    start_interpreter,
    this_process,
)
from suites.selftest.faults.clean import CleanTestCase

ROOT = str(Path(__file__).resolve().parents[3])
# Seconds for a server to end; only a broken test waits this long.
LONG_S = 300.0


def answers(control: socket.socket, parent: Parent, word: str = "") -> None:
    """A server that tells what it was given and ends when the other side has closed the socket."""
    told = {
        "parent": [parent.pid, parent.watch],
        "word": word,
        "sys_path": sys.path,
        "inheritable": control.get_inheritable(),
        "environ": dict(os.environ),
    }
    control.sendall(json.dumps(told).encode() + b"\n")
    control.recv(1)


def returns(control: socket.socket, parent: Parent) -> None:
    """A server that has nothing to do."""


def raises(control: socket.socket, parent: Parent) -> None:
    """A server that fails."""
    raise ZeroDivisionError("as planned")


def interrupted(control: socket.socket, parent: Parent) -> None:
    """A server at which somebody presses Ctrl-C."""
    raise KeyboardInterrupt


def process(command: str) -> int:
    """Starts a shell command; returns its process id."""
    return os.posix_spawnp("sh", ["sh", "-c", command], os.environ)


class ServerProcessTest(CleanTestCase):
    """``ServerProcess`` with processes that are no servers."""

    def server(self, command: str = "exec sleep 3600") -> ServerProcess:
        """Returns the server that runs a shell command; it is killed at the end of the test."""
        near, far = socket.socketpair()
        self.addCleanup(near.close)
        far.close()
        made = ServerProcess(process(command), near)
        self.addCleanup(made.wait, 0.0)
        return made

    def test_lives_until_it_is_signalled(self) -> None:
        """A server lives until a signal ends it, whose name is told with its process id."""
        server = self.server()
        self.assertTrue(server.alive())
        server.signal(signal.SIGTERM)
        server.wait(LONG_S)
        self.assertFalse(server.alive())
        self.assertIn("SIGTERM", server.exit_text())
        self.assertEqual(server.how_it_ended(), f"process {server.pid} ended with {server.exit_text()}")
        server.signal(signal.SIGTERM)  # its number may be somebody else's by now

    def test_exit_code(self) -> None:
        """The end of a server that has just ended is waited for, and told as often as it is asked for."""
        server = self.server("exit 7")
        self.assertEqual([server.exit_text() for _ in range(2)], ["exit code 7"] * 2)

    def test_killed_where_it_does_not_end(self) -> None:
        """A server that ends too late is killed."""
        server = self.server()
        server.wait(0.0)
        self.assertIn("SIGKILL", server.exit_text())

    def test_exit_code_that_somebody_else_took(self) -> None:
        """A server that somebody else has waited for counts as ended."""
        server = self.server("exit 7")
        os.waitpid(server.pid, 0)
        self.assertFalse(server.alive())
        self.assertEqual(server.exit_text(), "exit code 0")

    def test_stopped(self) -> None:
        """A stopped server is killed; one that runs, or that ends while it is looked at, is not stopped."""
        server = self.server()
        self.assertFalse(server.end_if_stopped())
        os.kill(server.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)
        self.assertTrue(server.end_if_stopped())
        self.assertFalse(server.alive())
        self.assertIn("because it was stopped", server.exit_text())
        ends = self.server("exit 7")
        os.waitid(os.P_PID, ends.pid, os.WEXITED | os.WNOWAIT)
        with mock.patch.object(ends, "alive", return_value=True):
            self.assertFalse(ends.end_if_stopped())

    def test_no_wait_for_one_that_is_stopped(self) -> None:
        """Who waits for the end of a stopped server kills it at once."""
        server = self.server()
        os.kill(server.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, server.pid, os.WSTOPPED | os.WNOWAIT)
        with mock.patch.object(posix, "still_running") as awaited:
            server.wait(LONG_S)
        awaited.assert_not_called()
        self.assertIn("SIGKILL", server.exit_text())

    def test_killed_for_lack_of_memory(self) -> None:
        """The end of a server says what the kernel has killed since the server was started."""
        server = self.server()
        os.kill(server.pid, signal.SIGKILL)
        with mock.patch.object(MemoryKills, "explain", side_effect=lambda code: f"because of {code}"):
            self.assertEqual(server.exit_text(), "signal SIGKILL (because of -9)")

    def test_fork(self) -> None:
        """A fork of the starter does not own the server: for it the server does not live."""
        server = self.server()
        with mock.patch("os.getpid", return_value=-1), mock.patch("os.kill") as kill:
            self.assertFalse(server.owned or server.alive())
            server.signal(signal.SIGKILL)
            server.wait(0.0)
            kill.assert_not_called()
        self.assertTrue(server.owned and server.alive())


class StartInterpreterTest(CleanTestCase):
    """``start_interpreter`` with functions of this module."""

    def start(self, function: str, **more: Any) -> ServerProcess:
        """Returns a server that runs a function of this module."""
        server = ServerProcess(*start_interpreter(__name__, function, [ROOT, *sys.path], **more))
        self.addCleanup(server.wait, LONG_S)
        self.addCleanup(server.control.close)
        return server

    def told(self, **more: Any) -> dict[str, Any]:
        """Returns what the server tells that ``answers``."""
        with self.start("answers", **more).control.makefile() as lines:
            found: dict[str, Any] = json.loads(lines.readline())
        return found

    def test_what_it_is_given(self) -> None:
        """It gets the socket, its parent, the arguments, the search path and this process's environment."""
        with mock.patch.dict(os.environ, {"SELFTEST": "1", "MKL_NUM_THREADS": "8"}):
            told = self.told(arguments={"word": "yes"})
        self.assertEqual((told["word"], told["parent"]), ("yes", [os.getpid(), True]))
        self.assertEqual(told["sys_path"], [ROOT, *sys.path])
        self.assertFalse(told["inheritable"], "its own children would keep the socket open")
        self.assertEqual(told["environ"]["SELFTEST"], "1")
        self.assertEqual({name: told["environ"][name] for name in SINGLE_THREADED}, SINGLE_THREADED)

    def test_environment(self) -> None:
        """An environment that is given takes the place of this process's."""
        with mock.patch.dict(os.environ, {"SELFTEST": "1"}):
            told = self.told(environ={"ONLY": "this", "PATH": os.environ["PATH"]})
        self.assertEqual(told["environ"]["ONLY"], "this")
        self.assertNotIn("SELFTEST", told["environ"])

    def test_ends(self) -> None:
        """It ends with 0 after its function or Ctrl-C, and with 1 and a traceback after an exception."""
        for function, code in (("returns", 0), ("interrupted", 0), ("raises", 1)):
            read, write = os.pipe()
            with self.subTest(function), os.fdopen(read) as errors:
                server = self.start(function, stderr=write)
                os.close(write)
                server.control.close()
                self.assertEqual(server.exit_text(), f"exit code {code}")
                self.assertEqual("ZeroDivisionError: as planned" in errors.read(), code == 1)

    def test_no_process(self) -> None:
        """If no process can be started, that is an OSError, and no socket stays open."""
        with mock.patch.object(sys, "executable", "/no/such/interpreter"), self.assertRaises(OSError):
            start_interpreter(__name__, "answers", [])


class ParentTest(unittest.TestCase):
    """``this_process`` and ``interpreter_flags``, which a server inherits."""

    def test_thread(self) -> None:
        """A server watches its parent only if the main thread started it: another one may end first."""
        self.assertEqual(this_process(), Parent(os.getpid(), watch=True))
        found: list[Parent] = []
        thread = threading.Thread(target=lambda: found.append(this_process()))
        thread.start()
        thread.join()
        self.assertEqual(found, [Parent(os.getpid(), watch=False)])

    def test_flags(self) -> None:
        """The flags of this interpreter are found again, and none where it was started without."""
        code = "from harness.system.server_process import interpreter_flags; print(*interpreter_flags())"
        for flags in ([], ["-O"], ["-Werror::UserWarning", "-Xdev"]):
            environ = {n: v for n, v in os.environ.items() if not n.startswith("PYTHON")}
            with self.subTest(flags=flags):
                run = subprocess.run(
                    [sys.executable, *flags, "-c", code],
                    cwd=ROOT,
                    env=environ,
                    stdout=subprocess.PIPE,
                    text=True,
                    check=True,
                )
                for flag in flags:
                    self.assertIn(flag, run.stdout.replace("-X dev", "-Xdev").split())
                self.assertEqual(bool(flags), bool(run.stdout.split()))
        self.assertIsInstance(interpreter_flags(), list)


if __name__ == "__main__":
    unittest.main()
