"""Tests which interpreters of a machine are found, understood and taken."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

from tools.matrix.interpreters import Interpreter, ask, candidates, newest, understood


class Candidates(unittest.TestCase):
    """The files that may be interpreters."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.root = Path(directory.name)

    def program(self, name: str) -> Path:
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    def test_path_comes_first_and_pyenv_after_it(self) -> None:
        """``PATH`` counts in its order, then pyenv's versions; other names and missing folders do not."""
        there = [
            self.program("second/python3.12"),
            self.program("first/python3.10"),
            self.program("home/.pyenv/versions/3.13.0/bin/python"),
        ]
        self.program("first/python3")
        self.program("first/python3.9")
        path = ":".join(str(self.root / name) for name in ("second", "missing", "first"))
        self.assertEqual(candidates({"PATH": path}, self.root / "home"), there)

    def test_pyenv_may_be_elsewhere(self) -> None:
        """``PYENV_ROOT`` says where pyenv's versions are."""
        there = self.program("pyenv/versions/3.11.7/bin/python")
        self.program("home/.pyenv/versions/3.13.0/bin/python")
        environ = {"PYENV_ROOT": str(self.root / "pyenv")}
        self.assertEqual(candidates(environ, self.root / "home"), [there])


class Asking(unittest.TestCase):
    """The question to an interpreter, and what its answer says."""

    def test_this_one_answers(self) -> None:
        """The interpreter of this test says its own version."""
        version = ".".join(map(str, sys.version_info[:3]))
        self.assertEqual(ask(Path(sys.executable)), Interpreter(version, sys.executable))

    def test_what_is_no_interpreter_is_none(self) -> None:
        """A program that fails, or that is not there, is no interpreter."""
        for path in ("/bin/false", "/nowhere/python3.12"):
            with self.subTest(path):
                self.assertIsNone(ask(Path(path)))

    def test_answers(self) -> None:
        """Only a release of CPython with the global interpreter lock counts."""
        path = Path("python")
        for answer, version in {
            "CPython 3.13.0 \n": "3.13.0",
            "CPython 3.13.0 free-threaded\n": None,
            "CPython 3.15.0b1 \n": None,
            "PyPy 3.11.13 \n": None,
            "": None,
        }.items():
            with self.subTest(answer):
                expected = Interpreter(version, "python") if version else None
                self.assertEqual(understood(answer, path), expected)


class Newest(unittest.TestCase):
    """Which of several interpreters are taken."""

    def test_newest_patch_of_each_minor_version(self) -> None:
        """Versions compare as numbers, the first of two equal ones wins, and others are left out."""
        found = [
            Interpreter("3.12.9", "a"),
            Interpreter("3.12.10", "b"),
            Interpreter("3.12.10", "c"),
            Interpreter("3.10.13", "d"),
            Interpreter("3.9.18", "e"),
            Interpreter("3.15.2", "f"),
        ]
        self.assertEqual([one.path for one in newest(found)], ["d", "b"])
