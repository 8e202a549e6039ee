"""Tests stacks by py-spy: of real processes where it is installed, else what is said in its place."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from harness.look import stacks
from harness.look.stacks import MISSING, Stacks, of_process, parsed, program, refusal

SLEEPER = "def inner(): print(flush=True); input()\ninner()"


class RealTest(unittest.TestCase):
    """py-spy itself, which requirements.txt pins."""

    def setUp(self) -> None:
        if program() is None:
            self.skipTest("py-spy is not installed")
        self.child = subprocess.Popen(
            [sys.executable, "-c", SLEEPER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self.child.communicate, "\n")
        assert self.child.stdout is not None
        self.child.stdout.readline()

    def test_stack(self) -> None:
        """The frames of a process that waits, innermost first."""
        found = of_process(self.child.pid)
        self.assertEqual(found.why, "")
        self.assertEqual([frame.function for frame in found.main], ["inner", "<module>"])

    def test_native(self) -> None:
        """With native frames those of Python are among them, and more."""
        found = of_process(self.child.pid, native=True)
        self.assertEqual(found.why, "")
        self.assertGreater(len(found.main), 2)
        self.assertIn("inner", [frame.function for frame in found.main])

    def test_gone(self) -> None:
        """A process that is gone has no stack, and the line says what py-spy said of it."""
        self.child.kill()
        self.child.wait()
        self.assertTrue(of_process(self.child.pid).why.startswith("no stack: "))


class WordsTest(unittest.TestCase):
    """What is said where there are no stacks."""

    def played(self, script: str) -> Stacks:
        """The stacks that a program in the place of py-spy leads to."""
        with tempfile.TemporaryDirectory() as directory:
            played = Path(directory, "py-spy")
            played.write_text(f"#!/bin/sh\n{script}\n")
            played.chmod(0o755)
            with mock.patch.object(stacks, "program", return_value=str(played)):
                return of_process(os.getpid())

    def test_missing(self) -> None:
        """Without py-spy the line says how to get it."""
        with mock.patch.object(stacks, "program", return_value=None):
            self.assertEqual(of_process(os.getpid()), Stacks(why=MISSING))

    def test_forbidden(self) -> None:
        """Where ptrace is not permitted, the line says what allows it."""
        for words in ("Error: Permission denied (os error 13)", "Operation not permitted (os error 1)"):
            with self.subTest(words=words):
                why = self.played(f"echo '{words}' >&2; exit 1").why
                self.assertEqual(why, refusal(words, os.getpid()))
                self.assertIn("ptrace_scope=0", why)
        self.assertEqual(refusal("Error: Failed to find python version", 1), "")

    def test_other_trouble(self) -> None:
        """Another error is told in its first line; a process that moves is read again."""
        self.assertEqual(self.played("echo 'Error: odd' >&2; exit 1").why, "no stack: Error: odd")
        self.assertEqual(self.played("exit 1").why, "no stack: py-spy said nothing")
        moved = 'test -e "$0.moved" && echo [] && exit; touch "$0.moved"; exit 1'
        self.assertEqual(self.played(moved), Stacks({}))

    def test_no_json(self) -> None:
        """What is no list of threads is no stack."""
        for text in ("", "{}", "[1]", '[{"thread_name": "x"}]'):
            with self.subTest(text=text):
                found = parsed(text)
                self.assertEqual(found.main, ())
                self.assertEqual(bool(found.why), text != "{}")

    def test_main_thread(self) -> None:
        """It is the one of the process's number; without numbers, as on 3.10, the only one or by its name."""
        for numbers, names, main in (
            ((5, 6), (None, None), "f0"),
            ((6, 5), (None, None), "f1"),
            ((None,), (None,), "f0"),
            ((None, None), (None, "MainThread"), "f1"),
            ((None, None), (None, None), None),
            ((6,), (None,), None),
        ):
            with self.subTest(numbers=numbers, names=names):
                threads = [
                    {
                        "pid": 5,
                        "os_thread_id": number,
                        "thread_id": n,
                        "thread_name": name,
                        "frames": [{"name": f"f{n}", "filename": "a.py", "line": 1}],
                    }
                    for n, (number, name) in enumerate(zip(numbers, names, strict=True))
                ]
                found = parsed(json.dumps(threads)).main
                self.assertEqual([frame.function for frame in found], [main] if main else [])


if __name__ == "__main__":
    unittest.main()
