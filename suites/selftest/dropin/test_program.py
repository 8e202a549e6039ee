"""Tests running files and modules as ``__main__``."""

from __future__ import annotations

import os
import subprocess
import tempfile
import unittest
from pathlib import Path

from harness.dropin import program
from harness.errors import UsageError
from suites.selftest import warm_python
from suites.selftest.runner.runs import PATIENCE_S

ROOT = Path(__file__).resolve().parents[3]

PLAIN = """
import sys, unittest
print("name", __name__, "argv", sys.argv[1:], "main", sys.modules["__main__"].__dict__ is globals())
class Case(unittest.TestCase):
    def test_one(self):
        print("one ran")
    def test_two(self):
        print("two ran")
"""
COLLECTING = """
import gc, unittest
print("import", gc.get_threshold()[0])
class Case(unittest.TestCase):
    def test_one(self):
        print("test", gc.get_threshold()[0] > 0, gc.get_freeze_count() > 0)
"""
MAIN = """
if __name__ == "__main__":
    print("its own way")
"""


class Finding(unittest.TestCase):
    """``find``, which finds the file of a path or a module name."""

    def test_file(self) -> None:
        self.assertEqual(program.find(__file__), (os.path.abspath(__file__), None))

    def test_module(self) -> None:
        file, spec = program.find("harness.dropin.program")
        self.assertEqual(file, program.__file__)
        assert spec is not None
        self.assertEqual(spec.name, "harness.dropin.program")

    def test_neither(self) -> None:
        for target in ("no/such/file.py", "no_such_module", "no_such.module", "sys", "", "-x"):
            with self.subTest(target=target), self.assertRaisesRegex(UsageError, "neither a Python file"):
                program.find(target)


class MainBlocks(unittest.TestCase):
    """``runs_itself``, which says whether a source has a main block."""

    def test_told_by_a_top_level_test_of_the_name(self) -> None:
        for source, expected in (
            (b"x = 1", False),
            (b"if __name__ == '__main__':\n    pass", True),
            (b"if '__main__' == __name__ and x:\n    pass", True),
            (b"def f():\n    if __name__ == '__main__':\n        pass", False),
        ):
            with self.subTest(source=source):
                self.assertIs(program.runs_itself(source), expected)


class Running(unittest.TestCase):
    """``python -m harness.dropin``, on files that need no ranks."""

    def play(
        self, source: str | None, *arguments: str, new: bool = False
    ) -> subprocess.CompletedProcess[str]:
        """Runs a file with that source, or no file; both streams come in ``stdout``.

        It is a new interpreter where that is ``new``; otherwise one that has torch.
        """
        command = ["-m", "harness.dropin"]
        with tempfile.TemporaryDirectory() as directory:
            if source is not None:
                file = Path(directory, "upstream_file.py")
                file.write_text(source)
                command.append(str(file))
            run = warm_python.run_new if new else warm_python.run
            return run([*command, *arguments], cwd=ROOT, env=os.environ, timeout=PATIENCE_S)

    def test_a_file_without_main_block_goes_to_unittest(self) -> None:
        done = self.play(PLAIN, "Case.test_two")
        self.assertEqual(done.returncode, 0, done.stdout)
        self.assertIn("name __main__ argv ['Case.test_two'] main True", done.stdout)
        self.assertIn("two ran", done.stdout)
        self.assertNotIn("one ran", done.stdout)

    def test_a_main_block_decides(self) -> None:
        done = self.play(PLAIN + MAIN)
        self.assertIn("its own way", done.stdout)
        self.assertNotIn("one ran", done.stdout)

    def test_no_collections_until_tests_begin(self) -> None:
        """Imports are not interrupted by collections; tests have them, without what the imports made."""
        for main in ("", "if __name__ == '__main__':\n    unittest.main()\n"):
            with self.subTest(main=main):
                done = self.play(COLLECTING + main, new=True)
                self.assertEqual(done.returncode, 0, done.stdout)
                self.assertIn("import 0\n", done.stdout)
                self.assertIn("test True True\n", done.stdout)

    def test_usage(self) -> None:
        self.assertEqual(self.play(None).returncode, 2)
        self.assertEqual(self.play(None, "--help").returncode, 0)
        done = self.play(None, "no_such_module")
        self.assertEqual(done.returncode, 2)
        self.assertIn("neither a Python file nor a module", done.stdout)


if __name__ == "__main__":
    unittest.main()
