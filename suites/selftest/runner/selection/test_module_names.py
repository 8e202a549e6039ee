"""Tests that a module has one name, whether it is imported, run with -m, or run as a script."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from harness.runner.selection.module_names import import_root, module_of_path, real_module

REPOSITORY = Path(__file__).resolve().parents[4]
SOURCE = f"""
import sys
sys.path.insert(0, {str(REPOSITORY)!r})
from harness.runner.selection.module_names import real_module
print(real_module(__name__))
"""


class NamesTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name).resolve()
        package = self.root / "outer" / "inner"
        package.mkdir(parents=True)
        for parent in (package, package.parent):
            (parent / "__init__.py").touch()
        self.module = package / "test_it.py"
        self.module.write_text(SOURCE)
        (self.root / "bare").mkdir()
        (self.root / "bare" / "test_it.py").write_text(SOURCE)
        self.script = self.root / "test_alone.py"
        self.script.write_text(SOURCE)

    def run_python(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, *arguments], cwd=self.root, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def test_real_module(self) -> None:
        self.assertEqual(self.run_python("-m", "outer.inner.test_it"), "outer.inner.test_it")
        self.assertEqual(self.run_python("outer/inner/test_it.py"), "outer.inner.test_it")
        self.assertEqual(self.run_python("-m", "bare.test_it"), "bare.test_it")
        self.assertEqual(self.run_python("test_alone.py"), "test_alone")
        self.assertEqual(self.run_python("-c", SOURCE), "__main__")
        self.assertEqual(real_module(__name__), __name__)

    def test_module_of_path(self) -> None:
        self.assertEqual(module_of_path(self.module), "outer.inner.test_it")
        self.assertEqual(module_of_path(self.script), "test_alone")

    def test_import_root(self) -> None:
        self.assertEqual(import_root(self.module), self.root)
        self.assertEqual(import_root(self.script), self.root)


if __name__ == "__main__":
    unittest.main()
