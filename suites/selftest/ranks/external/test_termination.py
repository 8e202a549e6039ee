"""Tests what a process does when its launcher sends SIGTERM."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
import threading
import unittest

from harness.ranks.external.termination import Termination, announce
from suites.selftest.ranks.external.jobs import LONG_S, ROOT

# A run of four tests, the second of which does what it is told once the parent may send the signal.
_PROGRAM = """
import multiprocessing, os, signal, sys, threading, time, unittest
from harness.ranks.external import unittest_run
from harness.ranks.external.termination import Termination, announce

EAR = Termination(lambda tests: announce(0, tests), threading.Event())

def ready():
    print("ready", flush=True)
    sys.stdin.readline()

class Case(unittest.TestCase):
    def run(self, result=None):
        EAR.run = unittest_run.around(self, sys._getframe())
        super().run(result)

    def test_a(self):
        self.assertTrue(EAR.listen())

    def test_b(self):
        {body}

    def test_c(self):
        pass

    def test_d(self):
        pass

unittest.main()
"""


class SignalTest(unittest.TestCase):
    """A program that is sent the signal."""

    def end_of(self, body: str) -> tuple[int, str]:
        """Runs the program, sends the signal when it is ready; returns its exit code and what it printed."""
        with subprocess.Popen(
            [sys.executable, "-c", _PROGRAM.replace("{body}", body)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stdout is not None and process.stderr is not None
            if process.stdout.readline() == "ready\n":
                process.send_signal(signal.SIGTERM)
            err = process.communicate(timeout=LONG_S)[1]
            return process.returncode, err

    def test_in_python(self) -> None:
        """The test that runs is an error, unittest reports, and the others are named."""
        code, err = self.end_of("ready(); time.sleep(100000)")
        self.assertEqual(code, 1, err)
        self.assertIn("2 tests will not run after this one\n  did not run: __main__.Case.test_c\n", err)
        self.assertIn("EndedByLauncher: the launcher ends the job (SIGTERM)", err)
        self.assertIn("Ran 2 tests", err)

    def test_supervised(self) -> None:
        """A test that a supervisor watches is left to it, and no other runs afterwards."""
        code, err = self.end_of("EAR.supervised = True; ready(); EAR.came.wait()")
        self.assertEqual(code, 0, err)
        self.assertIn("did not run: __main__.Case.test_d", err)
        self.assertIn("Ran 2 tests", err)

    def test_of_a_child(self) -> None:
        """A child that the test forks and ends by SIGTERM is not taken for the job's end."""
        body = "p = multiprocessing.get_context('fork').Process(target=time.sleep, args=(1000,)); p.start(); "
        code, err = self.end_of(body + "p.terminate(); p.join(); self.assertEqual(p.exitcode, -15)")
        self.assertEqual(code, 0, err)
        self.assertIn("Ran 4 tests", err)

    def test_own_handler(self) -> None:
        """A test that handles the signal itself gets it."""
        body = "got = []; signal.signal(15, lambda *_: got.append(1)); os.kill(os.getpid(), 15); "
        body += "self.assertTrue(got)"
        code, err = self.end_of(body)
        self.assertEqual((code, "will not run" in err), (0, False), err)


class WordsTest(unittest.TestCase):
    """What is said, and where nobody listens."""

    def test_announce(self) -> None:
        """Rank 0 names the tests; the others say it in one line."""
        ends = "the launcher ends the job (SIGTERM);"
        names = "  did not run: a\n  did not run: b\n"
        for rank, tests, said in (
            (0, ("a", "b"), f"rank 0: {ends} 2 tests will not run after this one\n{names}"),
            (1, ("a",), f"rank 1: {ends} 1 test will not run after this one\n"),
            (0, (), f"rank 0: {ends} no test comes after this one\n"),
        ):
            with self.subTest(rank=rank, tests=tests), contextlib.redirect_stderr(io.StringIO()) as err:
                announce(rank, tests)
                self.assertEqual(err.getvalue(), f"harness: {said}")

    def test_nobody_listens(self) -> None:
        """Where another thread asks, or somebody handles the signal, nothing is installed."""
        before = signal.getsignal(signal.SIGTERM)
        found: list[bool] = []
        ear = Termination(lambda tests: None, threading.Event())
        thread = threading.Thread(target=lambda: found.append(ear.listen()))
        thread.start()
        thread.join()
        self.addCleanup(signal.signal, signal.SIGTERM, before)
        signal.signal(signal.SIGTERM, lambda *_: os._exit(1))
        handler = signal.getsignal(signal.SIGTERM)
        found.append(ear.listen())
        self.assertEqual(found, [False, False])
        self.assertIs(signal.getsignal(signal.SIGTERM), handler)


if __name__ == "__main__":
    unittest.main()
