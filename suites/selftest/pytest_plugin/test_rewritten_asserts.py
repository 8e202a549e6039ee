"""Tests that assert statements tell their values in a process that does not run pytest."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from suites.selftest.pytest_plugin.runs import ROOT

MODULE = """
def compare(given):
    assert given == [1, 2], "a message of its own"

def call(function):
    assert function(3)
"""
PROGRAM = """
import sys
sys.path.insert(0, sys.argv[1])
from harness.pytest_plugin import rewritten_asserts
import test_it
for function, argument in ((test_it.compare, [1, 3]), (test_it.call, lambda n: n > 100 % 90)):
    try:
        function(argument)
    except AssertionError as error:
        print(error)
print(sorted(name for name in sys.modules if name in ("xdist", "pytest_timeout")))
"""


class RewritingTest(unittest.TestCase):
    """``rewritten_asserts`` in a new interpreter, as a server of ranks may be one."""

    def test_new_interpreter(self) -> None:
        """Values and differences are told, and no plugin of the environment is loaded for it."""
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, "test_it.py").write_text(MODULE, encoding="utf-8")
            done = subprocess.run(
                [sys.executable, "-c", PROGRAM, directory],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
        self.assertIn("a message of its own\nassert [1, 3] == [1, 2]", done.stdout, done.stderr)
        self.assertIn("At index 1 diff: 3 != 2", done.stdout)
        self.assertIn("assert False\n +  where False = <function <lambda>", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "[]")


if __name__ == "__main__":
    unittest.main()
