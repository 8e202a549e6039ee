"""Tests whether a fork of a process would miss a thread."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import unittest
import warnings
from collections.abc import Callable
from pathlib import Path
from unittest import mock

from harness.system import accelerators, fork_safety

ROOT = str(Path(__file__).resolve().parents[3])


class MissesNoThreadTest(unittest.TestCase):
    """Whether a forked child would miss threads."""

    def ask(self, code: str) -> str:
        """What a new interpreter prints that starts with such code."""
        code += "\nfrom harness.system import fork_safety, posix"
        code += "\nprint(posix.os_threads() > 1, fork_safety.fork_keeps_all_threads())"
        environ = {n: v for n, v in os.environ.items() if not n.endswith("_NUM_THREADS")}
        run = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT,
            env={**environ, "OPENBLAS_NUM_THREADS": "2"},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        return run.stdout.strip()

    def test_one_thread(self) -> None:
        """A process with one thread can be forked."""
        self.assertEqual(self.ask(""), "False True")

    def test_a_pool_that_ends_before_a_fork(self) -> None:
        """OpenBLAS's pool, which ends before a fork, does not prevent one."""
        answer = self.ask("import numpy")
        if answer == "False True":
            self.skipTest("numpy starts no pool here")
        self.assertEqual(answer, "True True")

    def test_a_thread(self) -> None:
        """A Python thread prevents a fork."""
        code = (
            "import threading, time; threading.Thread(target=time.sleep, args=(3600,), daemon=True).start()"
        )
        self.assertEqual(self.ask(code), "True False")

    def test_devices(self) -> None:
        """A fork that its parent has cut off from the devices, as torch tells the fork alone, is not made."""
        parent = os.getpid()
        table: tuple[tuple[list[Callable[[], bool]], bool], ...] = (
            ([], True),
            ([lambda: False], True),
            ([lambda: False, lambda: os.getpid() != parent], False),
            ([lambda: os.getpid() == parent], True),
            ([lambda: 1 // 0 == 0], False),  # one that cannot answer
        )
        for number, (questions, safe) in enumerate(table):
            with (
                self.subTest(row=number),
                mock.patch.object(accelerators, "questions_for_a_fork", lambda q=questions: q),
            ):
                self.assertEqual(fork_safety.fork_keeps_devices(), safe)

    def test_no_warning(self) -> None:
        """Asking causes no warning of Python 3.12 and later about a fork beside threads."""
        fork = os.fork

        def warning_fork() -> int:
            warnings.warn("use of fork() may lead to deadlocks", DeprecationWarning, stacklevel=2)
            return fork()

        done = threading.Event()
        thread = threading.Thread(target=done.wait)
        thread.start()
        try:
            with mock.patch("os.fork", warning_fork), warnings.catch_warnings():
                warnings.simplefilter("error")
                self.assertFalse(fork_safety.fork_keeps_all_threads())
        finally:
            done.set()
            thread.join()


if __name__ == "__main__":
    unittest.main()
