"""Tests with ranks that wait until they may go on, for looks at them, in a process of their own."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
from pathlib import Path

import psutil

from suites.selftest.runner.runs import PATIENCE_S, environ

# Seconds between two looks at what the command has come to.
LOOK_S = 0.05
TREE = Path(__file__).resolve().parents[3]
# Rank 1 waits in a system call of C that a signal would interrupt, and rank 0 in all_reduce for rank 1.
RANKS = """
    import ctypes, os, unittest
    import torch, torch.distributed as dist
    from harness import DistributedTestBase, MultiThreadedTestCase

    libc = ctypes.CDLL(None, use_errno=True)

    class PollFd(ctypes.Structure):
        _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]

    def wait_in_c():
        gate = os.open("gate", os.O_RDONLY | os.O_NONBLOCK)
        waited = PollFd(gate, 1, 0)
        open(f"waits-{os.getpid()}", "w").close()
        return libc.poll(ctypes.byref(waited), 1, -1), ctypes.get_errno()

    class T(DistributedTestBase):
        world_size = 2
        def test_ranks(self):
            self.create_pg("cpu")
            tensor = torch.ones(1)
            dist.all_reduce(tensor)
            if self.rank == 1:
                self.assertEqual(wait_in_c(), (1, 0))
            dist.all_reduce(tensor)

    class Threads(MultiThreadedTestCase):
        world_size = 2
        def setUp(self):
            super().setUp()
            self._spawn_threads()
        def test_threads(self):
            if self.rank == 1:
                self.assertEqual(wait_in_c(), (1, 0))
            dist.all_reduce(torch.ones(1))

    class Alone(unittest.TestCase):
        def test_alone(self):
            self.assertEqual(wait_in_c(), (1, 0))

    if __name__ == "__main__":
        unittest.main()
    """


class Blocked:
    """A command whose process waits in C, in a directory of its own, until ``go_on``."""

    def __init__(self, test: unittest.TestCase, *command: str, script: str = "") -> None:
        """``script`` is the text of ``script.py`` in the directory."""
        temporary = tempfile.TemporaryDirectory(prefix="harness-look-")
        test.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name).resolve()
        (self.directory / "test_blocked.py").write_text(textwrap.dedent(RANKS), encoding="utf-8")
        (self.directory / "script.py").write_text(script, encoding="utf-8")
        os.mkfifo(self.directory / "gate")
        self._gate = os.open(self.directory / "gate", os.O_RDWR)
        test.addCleanup(os.close, self._gate)
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=self.directory,
            env=environ(self.directory, PYTHONPATH=str(TREE), PYTHONUNBUFFERED="1"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert self.process.stdout is not None
        self.out = self.process.stdout
        test.addCleanup(self.out.close)
        test.addCleanup(self.process.wait)
        test.addCleanup(self.process.kill)

    def await_wait(self) -> int:
        """The process that waits in C, once it does; AssertionError where the command ends before."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.process.poll() is None:
            for path in self.directory.glob("waits-*"):
                pid = int(path.name.partition("-")[2])
                if psutil.Process(pid).status() == psutil.STATUS_SLEEPING:
                    return pid
            select.select([], [], [], LOOK_S)
        said = self.out.read() if self.process.poll() is not None else "it goes on"
        raise AssertionError(f"nothing waits in C: {said}")

    def go_on(self) -> str:
        """Lets the process go on, and returns what the command prints until its end."""
        os.write(self._gate, b"!")
        said, _ = self.process.communicate(timeout=PATIENCE_S)
        return said
