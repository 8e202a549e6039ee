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

BY_FILE = """
import os, sys
from harness.protocol import ModuleRef
from harness.pytest_plugin import rewritten_asserts
from harness.ranks.processes.module_import import import_reference
name = "tests.unit.test_it"
module = import_reference(ModuleRef(name, os.path.join(sys.argv[1], "test_it.py")))
assert module.__name__ == name and sys.modules[name] is module
try:
    module.compare([1, 3])
except AssertionError as error:
    print(error)
"""


class RewritingTest(unittest.TestCase):
    """``rewritten_asserts`` in a new interpreter, as a server of ranks may be one."""

    def run_program(self, program: str, file: str) -> subprocess.CompletedProcess[str]:
        """Runs a program in a new interpreter; its argument is the directory where the module is a file."""
        with tempfile.TemporaryDirectory() as directory:
            Path(directory, file).write_text(MODULE, encoding="utf-8")
            return subprocess.run(
                [sys.executable, "-c", program, directory],
                cwd=ROOT,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )

    def test_new_interpreter(self) -> None:
        """Values and differences are told, and no plugin of the environment is loaded for it."""
        done = self.run_program(PROGRAM, "test_it.py")
        self.assertIn("a message of its own\nassert [1, 3] == [1, 2]", done.stdout, done.stderr)
        self.assertIn("At index 1 diff: 3 != 2", done.stdout)
        self.assertIn("assert False\n +  where False = <function <lambda>", done.stdout)
        self.assertEqual(done.stdout.splitlines()[-1], "[]")

    def test_import_mode(self) -> None:
        """A module whose name leads nowhere is one too: ``--import-mode=importlib`` makes such names."""
        done = self.run_program(BY_FILE, "test_it.py")
        self.assertIn("a message of its own\nassert [1, 3] == [1, 2]", done.stdout, done.stderr)


if __name__ == "__main__":
    unittest.main()
