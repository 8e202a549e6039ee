"""Tests how a project's configuration file is found and read, and which lines its keys have."""

from __future__ import annotations

from harness.configuration.document import find, read
from harness.errors import UsageError
from suites.selftest.configuration.files import FileCase

NESTED = """\
# torch-harness.toml
jobs = 2

[environment]
A = "1"

[[overrides]]
tests = "a"
"group" = "x"

[[overrides]]
tests = "b"
[overrides.quarantine]
reason = "r"

[profiles.ci]
reruns.count = 1
"""


class FindTest(FileCase):
    """Which file holds in a directory."""

    def test_none(self) -> None:
        """Without a file, and with a pyproject.toml of other tools, there is no configuration."""
        self.assertIsNone(find(self.directory))
        self.write("[tool.ruff]\nline-length = 9\n", "pyproject.toml")
        self.write("[tool.other]\nsays = 'torch-harness'\n", "sub/pyproject.toml")
        self.assertIsNone(find(self.directory / "sub"))

    def test_nearest(self) -> None:
        """The nearest directory upwards decides, and files further up are not looked at."""
        self.write("jobs = 1\n")
        self.write("[tool.torch-harness]\njobs = 2\n", "a/pyproject.toml")
        for below, jobs in (("", 1), ("b/c", 1), ("a", 2), ("a/b/c", 2)):
            with self.subTest(below):
                place = self.directory / below
                place.mkdir(parents=True, exist_ok=True)
                found = find(place)
                self.assertEqual(found and found.table, {"jobs": jobs})

    def test_two(self) -> None:
        """Two files that configure in one directory are refused."""
        self.write("jobs = 1\n")
        self.write("[tool.torch-harness]\njobs = 2\n", "pyproject.toml")
        with self.assertRaisesRegex(UsageError, "both configure the tests: keep one"):
            find(self.directory)

    def test_refused(self) -> None:
        """What is no TOML, is missing, or has no table is one line that names the file."""
        broken, other = self.write("jobs = \n", "a.toml"), self.write("[tool.ruff]\n", "pyproject.toml")
        too_deep = self.write("# all\n[tool.torch-harness]\njobs = 2\n")
        for path, said in (
            (broken, r"a.toml is no TOML: .*line 1"),
            (self.directory / "b.toml", "b.toml: No such file"),
            (other, r"no table \[tool.torch-harness\]"),
            (
                too_deep,
                r"torch-harness.toml:2: \[tool.torch-harness\] is for pyproject.toml; here, leave it out",
            ),
        ):
            with self.subTest(path.name), self.assertRaisesRegex(UsageError, said) as raised:
                read(path)
            self.assertNotIn("\n", str(raised.exception))


class LinesTest(FileCase):
    """``where``, for messages."""

    def test_own_file(self) -> None:
        """Keys, tables, elements of arrays and dotted keys have lines; others that of what is around."""
        document = read(self.write(NESTED))
        for path, line in (
            (("jobs",), 2),
            (("environment", "A"), 5),
            (("environment", "missing"), 4),
            (("overrides", 0), 7),
            (("overrides", 0, "group"), 9),
            (("overrides", 1, "tests"), 12),
            (("overrides", 1, "quarantine", "reason"), 14),
            (("profiles", "ci", "reruns", "count"), 17),
        ):
            with self.subTest(path):
                self.assertEqual(document.where(*path), f"torch-harness.toml:{line}")
        self.assertEqual(document.where("missing"), "torch-harness.toml")

    def test_pyproject(self) -> None:
        """Of a pyproject.toml only the harness's table counts."""
        text = "[tool.ruff]\njobs = 1\n[tool.torch-harness]\njobs = 2\n"
        document = read(self.write(text, "pyproject.toml"))
        self.assertEqual(document.where("jobs"), "pyproject.toml:4")


if __name__ == "__main__":
    import unittest

    unittest.main()
