"""Tests the zygote by the messages that it exchanges with its controller: imports, workers and their ends."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import unittest
from typing import TypeVar
from unittest import mock

from harness.outcomes import EXIT_ERROR
from harness.runner.messages import (
    FORK_FDS,
    Ended,
    Fork,
    Forked,
    Gone,
    Item,
    Kill,
    Load,
    Loaded,
    Loading,
    Message,
    Ready,
    decode,
    encode,
)
from harness.runner.scheduling.plan import Attempt
from harness.runner.worker_process.zygote import Zygote
from harness.runner.workers.zygote_process import ZygoteProcess
from harness.wire import recv_frame, send_fds, send_frame
from suites.selftest.runner import runs
from suites.selftest.runner.workers.test_workers import gone

Kind = TypeVar("Kind", bound=Message)


class Worker:
    """The controller's side of a worker's descriptors; its claim pipe has no end."""

    def __init__(self, test: unittest.TestCase, zygote: ZygoteProcess, order: Fork) -> None:
        """Orders a worker; the descriptors are closed when ``test`` is over."""
        self.channel, theirs = socket.socketpair()
        self.channel.settimeout(runs.PATIENCE_S)
        self._output, output = os.pipe()
        self._stacks, stacks = os.pipe()
        claims = os.open("/dev/zero", os.O_RDONLY)
        zygote.send_fork(order, [theirs.fileno(), output, stacks, claims])
        theirs.close()
        for fd in (output, stacks, claims):
            os.close(fd)
        test.addCleanup(self.channel.close)
        for fd in (self._output, self._stacks):
            test.addCleanup(os.close, fd)

    def statuses(self) -> list[str]:
        """Reads what the worker reports to its end and returns the status of each test."""
        found = []
        while (frame := recv_frame(self.channel)) is not None:
            message = decode(frame)
            if isinstance(message, Ended):
                found.append(message.record["status"])
        return found

    def read_line(self) -> str:
        """Returns the next line that a test prints."""
        line = b""
        while not line.endswith(b"\n"):
            readable, _, _ = select.select([self._output], [], [], runs.PATIENCE_S)
            assert readable, line
            line += os.read(self._output, 1)
        return line.decode().strip()


class ZygoteTest(unittest.TestCase):
    """A zygote of the test's own, on modules that the test writes."""

    def setUp(self) -> None:
        self.directory = runs.new_directory(self)
        environ = {**runs.environ(self.directory), "MKL_NUM_THREADS": "7"}  # the zygote itself has 1
        self.zygote = ZygoteProcess(environ, [str(self.directory), *sys.path], inherit_streams=False)
        self.addCleanup(self.zygote.close)
        self._messages: list[Message] = []
        self._made = 0

    def next(self, kind: type[Kind]) -> Kind:
        """Returns the zygote's next message, which has to be of the given kind."""
        while not self._messages:
            readable, _, _ = select.select([self.zygote.control], [], [], runs.PATIENCE_S)
            assert readable, f"no {kind.__name__}"
            self._messages += self.zygote.receive()
        message = self._messages.pop(0)
        assert isinstance(message, kind), message
        return message

    def load(self, **bodies: str) -> list[Loaded]:
        """Writes modules and has them loaded; returns what became of each."""
        for name, body in bodies.items():
            runs.write_module(self.directory, name, body)
        self.zygote.send(Load([*bodies]))
        found = []
        for name in bodies:
            self.assertEqual(self.next(Loading).module, name)
            found.append(self.next(Loaded))
        self.next(Ready)
        return found

    def fork(self, body: str, **order: object) -> Worker:
        """Has a worker made for a test with the given body; the marker before its output is read."""
        lines = "".join(f"        {line}\n" for line in body.splitlines())
        self._made += 1
        name = f"made_{self._made}"
        self.load(**{name: f"class T(unittest.TestCase):\n    def test(self):\n{lines}"})
        items = [Item(1, name, Attempt(f"{name}.T.test"))]
        worker = Worker(self, self.zygote, Fork("w1", items, "marker:", **order))  # type: ignore[arg-type]  # by the tests
        self.pid = self.next(Forked).pid
        self.assertEqual(worker.read_line(), "marker:000000000001")
        return worker

    def test_load(self) -> None:
        """Modules are imported one after the other, and one that is broken stops no other."""
        fine = "class T(unittest.TestCase):\n    def test_1(self): pass\n"
        broken, skipped, listed = self.load(
            broken="1 / 0", skipped="raise unittest.SkipTest('why')", fine=fine
        )
        self.assertIn("ZeroDivisionError", broken.error)
        self.assertEqual((skipped.skipped, skipped.error), ("why", ""))
        self.assertEqual([unit["id"] for unit in listed.units], ["fine.T.test_1"])
        self.assertIn(str(self.directory / "fine.py"), listed.files)
        self.assertEqual([each.dirty for each in (broken, skipped, listed)], [False] * 3)

    def test_import_that_leaves_a_thread(self) -> None:
        """A module that leaves a thread running is reported, and those after it are not blamed."""
        thread = "threading.Thread(target=threading.Event().wait, daemon=True).start()"
        self.assertEqual([each.dirty for each in self.load(a="", b=thread, c="")], [False, True, False])

    def test_worker(self) -> None:
        """A worker runs its tests, in a process group of its own and with the run's environment."""
        worker = self.fork(
            "print(os.getpgrp(), os.getppid(), os.environ['MKL_NUM_THREADS'], os.environ['OWN'])",
            environ={"OWN": "set"},
        )
        self.assertEqual(worker.read_line(), f"{self.pid} {self.zygote.pid} 7 set")
        self.assertEqual(worker.statuses(), ["passed"])
        end = self.next(Gone)
        self.assertEqual((end.worker, end.code), ("w1", 0))
        self.assertGreater(end.peak_memory, 1_000_000)

    def test_recording_is_prepared(self) -> None:
        """What records communication is in place before workers are forked, where torch is imported."""
        self.load(with_torch="import torch.distributed")
        body = (
            "self.assertTrue(hasattr(sys.modules['torch.distributed'].ProcessGroup.allreduce, '__wrapped__'))"
        )
        self.assertEqual(self.fork(body).statuses(), ["passed"])

    def test_worker_that_dies(self) -> None:
        """A worker that dies is told with its signal, and the next one can be forked."""
        worker = self.fork("os.kill(os.getpid(), signal.SIGSEGV)")
        self.assertEqual(worker.statuses(), [])
        self.assertEqual(self.next(Gone).code, -signal.SIGSEGV)
        self.assertEqual(self.fork("pass").statuses(), ["passed"])

    def test_kill(self) -> None:
        """A signal reaches the worker, and what it leaves in its process group ends with it."""
        worker = self.fork(
            "child = subprocess.Popen(['sleep', '600'])\nprint(child.pid)\nthreading.Event().wait()"
        )
        child = int(worker.read_line())
        self.zygote.send(Kill("w1", signal.SIGTERM))
        self.assertEqual(self.next(Gone).code, -signal.SIGTERM)
        self.assertTrue(gone(child))

    def test_what_leaves_the_process_group(self) -> None:
        """A process that has left the worker's process group is ended after a grace."""
        worker = self.fork(
            "child = subprocess.Popen(['sleep', '600'], start_new_session=True)\nprint(child.pid)"
        )
        child = int(worker.read_line())
        self.assertEqual(self.next(Gone).code, 0)
        self.assertTrue(gone(child))
        self.assertTrue(self.zygote.alive())

    def test_controller_that_goes(self) -> None:
        """A zygote whose controller has closed its socket ends its workers and itself."""
        worker = self.fork("print('here')\nthreading.Event().wait()")
        self.assertEqual(worker.read_line(), "here")
        self.zygote.control.shutdown(socket.SHUT_RDWR)
        self.assertTrue(gone(self.pid))
        self.assertTrue(gone(self.zygote.pid))


class RefusedForkTest(unittest.TestCase):
    """A zygote that may not fork."""

    def test_refused(self) -> None:
        """It lives on, and tells that the worker has ended, with the reason as the worker's output."""
        near, far = socket.socketpair()
        self.addCleanup(near.close)
        readable, output = os.pipe()
        self.addCleanup(os.close, readable)
        send_frame(near, encode(Fork("w1", [], "marker:")))
        send_fds(near, [output] * FORK_FDS)
        os.close(output)
        near.shutdown(socket.SHUT_WR)
        with mock.patch("os.fork", side_effect=BlockingIOError(11, "no more processes")):
            Zygote(far, {}, os.getpid()).run()
        frame = recv_frame(near)
        assert frame is not None
        self.assertEqual(decode(frame), Gone("w1", EXIT_ERROR, 0))
        self.assertEqual(os.read(readable, 999), b"no worker could be forked: [Errno 11] no more processes\n")


if __name__ == "__main__":
    unittest.main()
