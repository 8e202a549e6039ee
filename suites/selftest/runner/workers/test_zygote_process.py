"""Tests a zygote's import of modules that hang, the user's wish to stop, and ``close``."""

from __future__ import annotations

import os
import signal
import sys
import unittest
from unittest import mock

from harness.runner.messages import Load, Message
from harness.runner.workers import zygote_process
from harness.runner.workers.zygote_process import ZygoteLost, ZygoteProcess
from harness.system import logged_server
from suites.selftest.runner import runs
from suites.selftest.runner.worker_process.test_worker_descriptors import HELP
from suites.selftest.runner.workers.test_workers import gone


class ZygoteProcessTest(unittest.TestCase):
    """A zygote that imports modules which the test writes."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)
        self.wake, self._wakes = os.pipe()
        self.addCleanup(os.close, self.wake)
        self.addCleanup(os.close, self._wakes)
        environ = runs.environ(self.directory)
        self.zygote = ZygoteProcess(environ, [str(self.directory), *sys.path], inherit_streams=False)
        self.addCleanup(self.zygote.close)

    def test_an_import_that_hangs(self) -> None:
        """An import that hangs is given up with its stack, and the module before it keeps its result."""
        runs.write_module(
            self.directory, "test_fine", "class T(unittest.TestCase):\n    def test_1(self): pass\n"
        )
        runs.write_module(self.directory, "test_hang", "def inner(): threading.Event().wait()\ninner()\n")
        loading = self.zygote.load(["test_fine", "test_hang"], [], self.wake)
        first = next(loading)
        self.assertEqual([unit["id"] for unit in first.units], ["test_fine.T.test_1"])
        with mock.patch.object(zygote_process, "IMPORT_TIMEOUT_S", 0.05):
            second = next(loading)
        self.assertIn("no end after", second.error)
        self.assertIn("in inner", second.error)
        with self.assertRaises(ZygoteLost):
            next(loading)

    def test_an_import_that_stops(self) -> None:
        """A zygote that is stopped in an import is killed, and the module's error says so."""
        runs.write_module(self.directory, "test_stop", "os.kill(os.getpid(), signal.SIGSTOP)\n")
        loading = self.zygote.load(["test_stop"], [], self.wake)
        looks = mock.patch.object(zygote_process, "LOOK_S", 0.01)
        with looks, mock.patch.object(logged_server, "STOPPED_LOOKS", 2):
            self.assertIn("stopped (as by SIGSTOP)", next(loading).error)
            with self.assertRaises(ZygoteLost):
                next(loading)

    def test_close_of_a_stopped_zygote(self) -> None:
        """A zygote that is stopped at the end of a run delays it no further."""
        os.kill(self.zygote.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.zygote.pid, os.WSTOPPED | os.WNOWAIT)
        received: list[bytes] = []

        def recv(size: int) -> bytes:
            received.append(near.recv(size))
            return received[-1]

        near = self.zygote.control
        with mock.patch.object(self.zygote, "control", wraps=near) as control:
            control.recv.side_effect = recv
            self.zygote.close()
        self.assertEqual(received, [b""])  # the end of its socket, and no timeout
        self.assertIn("stopped (as by SIGSTOP)", self.zygote.exit_text())

    def test_messages_before_a_fault(self) -> None:
        """What a zygote sent before a module wrote to its socket is received, even by the same read."""
        os.mkfifo(self.directory / "written")
        runs.write_module(self.directory, "test_fine", "")
        text = f"{HELP}\nwrite(b'hello, who is there?')\nopen('{self.directory}/written', 'w').close()\n"
        runs.write_module(self.directory, "test_writes", text)
        self.zygote.send(Load(["test_fine", "test_writes"], []))
        (self.directory / "written").read_bytes()
        received: list[Message] = []
        with self.assertRaisesRegex(ZygoteLost, "wrote to its socket"):
            while True:
                received += self.zygote.receive()
        told = [type(message).__name__ for message in received]
        self.assertEqual(told, ["Loading", "Loaded", "Loading"])

    def test_a_wish_to_stop(self) -> None:
        """Ctrl-C is not delayed by an import that hangs."""
        runs.write_module(self.directory, "test_hang", "threading.Event().wait()\n")
        os.write(self._wakes, b"!")
        with self.assertRaises(KeyboardInterrupt):
            list(self.zygote.load(["test_hang"], [], self.wake))
        self.assertTrue(gone(self.zygote.pid))
        self.zygote.close()

    def test_close(self) -> None:
        """A second close does nothing."""
        self.zygote.close()
        self.zygote.close()
        self.assertTrue(gone(self.zygote.pid))


if __name__ == "__main__":
    unittest.main()
