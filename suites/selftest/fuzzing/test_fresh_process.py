"""Tests how scripts end in a fresh process: right, wrong, dead, hanging, and with what they started."""

from __future__ import annotations

import sys
import unittest

from harness.fuzzing.fresh_process import run_script
from harness.fuzzing.signature import Failure, Kind

# More than a Python without torch takes to start on a slow machine.
LONG_S = 60.0
# A hang is known by its time, whatever the machine.
SHORT_S = 0.5


class RunScriptTest(unittest.TestCase):
    def test_ends(self) -> None:
        for text, failure in (
            ("print('right')", None),
            ("assert 1 == 2, 'sum 3'", Failure(Kind.WRONG, "sum #")),
            ("import os; os.kill(os.getpid(), 11)", Failure(Kind.DIES, "signal 11")),
            ("import os; os._exit(3)", Failure(Kind.DIES, "exit code 3")),
            ("raise ValueError('no 5')", Failure(Kind.REFUSED, "ValueError: no #")),
        ):
            with self.subTest(text=text):
                self.assertEqual(run_script(text, LONG_S)[0], failure)

    def test_hang(self) -> None:
        failure, _ = run_script("import signal; signal.pause()", SHORT_S)
        self.assertEqual(failure, Failure(Kind.HANGS, "timed out"))

    def test_interpreter_and_variables(self) -> None:
        text = "import sys, os; assert 'HARNESS' not in str(os.environ.keys()); print(sys.executable)"
        failure, said = run_script(text, LONG_S, sys.executable)
        self.assertIsNone(failure)
        self.assertEqual(said.strip(), sys.executable)


if __name__ == "__main__":
    unittest.main()
