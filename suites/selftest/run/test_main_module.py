"""Tests that a file and a module run as ``__main__``, with the attributes that Python gives one."""

from __future__ import annotations

import contextlib
import io
import subprocess
import sys
import traceback
import unittest
from collections.abc import Callable
from unittest import mock

from harness.run import main_module
from harness.run.main_module import MainModule
from suites.selftest.run.scripts import ScriptCase

# Where Python differs by release or by its own matters, there is nothing to compare.
ATTRIBUTES = (
    "__name__, __file__, __package__, __doc__, __cached__ if __spec__ else None, __spec__ and __spec__.name"
)
BODY = f"""
    '''The doc.'''
    import sys
    SEEN = ({ATTRIBUTES}, __name__ == sys.modules['__main__'].__name__, type(__loader__).__name__, sys.argv)
    if __name__ == "__main__":
        print(SEEN)
    """


class MainModuleTest(ScriptCase):
    """Scripts in this process, compared with the same ones run by Python."""

    def setUp(self) -> None:
        """Has the test's directory in front of the path, and puts all back afterwards."""
        super().setUp()
        path = [str(self.directory), *sys.path]
        for patch in (
            mock.patch.dict(sys.modules),
            mock.patch.object(sys, "path", path),
            mock.patch.object(sys, "argv", ["-m", "a"]),
        ):
            patch.start()
            self.addCleanup(patch.stop)

    def seen(self, make: Callable[[str], MainModule], target: str) -> str:
        """Returns what the script saw, as text."""
        with contextlib.redirect_stdout(io.StringIO()):
            make(target).run()
        return str(sys.modules["__main__"].SEEN)

    def by_python(self, *argv: str) -> str:
        """Returns what the same script sees under Python."""
        done = subprocess.run(
            [sys.executable, *argv, "a"], cwd=self.directory, capture_output=True, text=True, check=True
        )
        return done.stdout.strip()

    def test_file(self) -> None:
        """A file, whatever its name and encoding."""
        path = self.write("my-train.txt", BODY)
        sys.argv[0] = str(path)
        self.assertEqual(self.seen(main_module.of_file, str(path)), self.by_python(str(path)))
        self.write("latin.py", "").write_bytes(b"# coding: latin-1\nSEEN = '\xe4'\n")
        self.assertEqual(self.seen(main_module.of_file, str(self.directory / "latin.py")), "ä")

    def test_module(self) -> None:
        """A module and a package."""
        for name in ("pkg/__init__.py", "pkg/mod.py", "pkg/__main__.py"):
            self.write(name, BODY)
        for name in ("pkg.mod", "pkg"):
            with self.subTest(name):
                self.assertEqual(self.seen(main_module.of_name, name), self.by_python("-m", name))

    def test_nothing_to_run(self) -> None:
        """What has no code is an ImportError."""
        self.write("pkg/__init__.py", "")
        for name in ("pkg", "nowhere", "pkg.nowhere"):
            with self.subTest(name), self.assertRaises(ImportError):
                main_module.of_name(name)

    def test_errors(self) -> None:
        """What the script raises propagates, from its own file and line."""
        path = self.write("bad.py", "x = 1\nraise LookupError(x)\n")
        frames: list[traceback.FrameSummary] = []
        try:
            main_module.of_file(str(path)).run()
        except LookupError as error:
            frames += traceback.extract_tb(error.__traceback__)
        innermost = frames[-1]
        self.assertEqual((innermost.filename, innermost.lineno), (str(path), 2))
        self.assertRaises(SyntaxError, main_module.of_file, str(self.write("syntax.py", "def")))


if __name__ == "__main__":
    unittest.main()
