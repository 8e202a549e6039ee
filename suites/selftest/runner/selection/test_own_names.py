"""Tests that the names which runs print of a project's own tests lead to their files."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from harness.runner.selection.own_names import with_paths
from suites.selftest.runner import runs


class WithPathsTest(unittest.TestCase):
    """``with_paths``, in a project with tests in ``tests``, some of them in a package."""

    def setUp(self) -> None:
        self.cwd = runs.new_directory(self)
        for file in (
            "test_sums.py",
            "unit/__init__.py",
            "unit/test_one.py",
            "a/test_two.py",
            "b/test_two.py",
        ):
            (self.cwd / "tests" / file).parent.mkdir(parents=True, exist_ok=True)
            (self.cwd / "tests" / file).touch()

    def test_names(self) -> None:
        """A module, a class, a test and one with parameters; a path and what is not the project's stay."""
        table = {
            "test_sums": "tests/test_sums.py",
            "test_sums.Sums": "tests/test_sums.py::Sums",
            "test_sums.Sums.test_sum": "tests/test_sums.py::Sums.test_sum",
            "test_sums.test_function[a/b.c]": "tests/test_sums.py::test_function[a/b.c]",
            "unit.test_one.One": "tests/unit/test_one.py::One",
            "tests/test_sums.py": "tests/test_sums.py",
            "tests/test_sums.py::Sums": "tests/test_sums.py::Sums",
            "tests": "tests",
            "c10d": "c10d",
            "test_one": "test_one",
        }
        for name, expected in table.items():
            for places in (["tests"], ["."], ["tests/test_sums.py", "tests/unit"]):
                with self.subTest(name=name, places=places):
                    self.assertEqual(with_paths([name], places, self.cwd), [expected])
        self.assertEqual(with_paths(["test_sums"], [], self.cwd), ["test_sums"])

    def test_several_files(self) -> None:
        """Which of two files of the same name is meant has to be said."""
        expected = r"'test_two.Two' may be any of tests/a/test_two.py, tests/b/test_two.py: write the path"
        with self.assertRaisesRegex(UsageError, expected):
            with_paths(["test_two.Two"], ["tests"], self.cwd)


if __name__ == "__main__":
    unittest.main()
