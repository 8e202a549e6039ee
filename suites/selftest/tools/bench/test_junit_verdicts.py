"""Tests the verdicts read from JUnit files, with files that pytest and ``run_tests.py`` write here."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from suites.selftest.forked_case import ForkedCase
from suites.selftest.runner import runs
from tools.bench.junit_verdicts import FILE, joined, merged, named, read
from tools.bench.upstream_file import NOT_PASSED, PASSED, SKIPPED

TREE = Path(__file__).resolve().parents[4]
MODULE = """
import unittest
import pytest

class Case(unittest.TestCase):
    def test_passes(self): pass
    def test_breaks(self): raise ValueError
    def test_skips(self): self.skipTest("no")
    @unittest.expectedFailure
    def test_fails_as_expected(self): self.fail()
    @unittest.expectedFailure
    def test_passes_unexpectedly(self): pass
    def test_fails_in_a_subtest(self):
        for i in range(2):
            with self.subTest(i=i):
                self.assertEqual(i, 1)
    @pytest.mark.skipif(True, reason="mark")
    def test_marked(self): pass

@pytest.mark.parametrize("word", ["one", "two words"])
def test_function(word):
    assert word == "one"

@pytest.mark.xfail
def test_xfail():
    assert False
"""
EXPECTED = {
    "Case::test_passes": PASSED,
    "Case::test_breaks": NOT_PASSED,
    "Case::test_skips": SKIPPED,
    "Case::test_fails_as_expected": PASSED,
    "Case::test_passes_unexpectedly": NOT_PASSED,
    "Case::test_fails_in_a_subtest": NOT_PASSED,
    "Case::test_marked": SKIPPED,
    "test_function[one]": PASSED,
    "test_function[two words]": NOT_PASSED,
    "test_xfail": PASSED,
}
WHOLE = {
    "import pytest\npytest.skip('no', allow_module_level=True)\n": {FILE: SKIPPED},
    "import no_such_module\n": {FILE: NOT_PASSED},
}


class ReadTest(ForkedCase):
    """``read``, of the same module run both ways."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        (self.directory / "inner").mkdir()

    def play(self, body: str, *command: str) -> dict[str, str]:
        """The verdicts of a module of that body, run by a command that writes ``junit.xml``."""
        (self.directory / "inner" / "test_small.py").write_text(body)
        subprocess.run(
            [sys.executable, *command, "inner/test_small.py"],
            cwd=self.directory,
            env=runs.environ(self.directory, PYTHONPATH=str(TREE)),
            capture_output=True,
            check=False,
        )
        return read(self.directory / "junit.xml", "test_small")

    def both(self, body: str) -> list[dict[str, str]]:
        """The verdicts by pytest and by ``run_tests.py``."""
        return [
            self.play(body, "-m", "pytest", "--junitxml=junit.xml"),
            self.play(body, str(TREE / "run_tests.py"), "--report-dir=."),
        ]

    def test_every_verdict(self) -> None:
        """Tests have the same names and verdicts in both files."""
        for found in self.both(MODULE):
            self.assertEqual(found, EXPECTED)

    def test_whole_files(self) -> None:
        """So have files without tests: skipped as a whole, and not importable."""
        for body, expected in WHOLE.items():
            with self.subTest(body):
                self.assertEqual(self.both(body), [expected, expected])

    def test_no_junit(self) -> None:
        """A file that is missing or broken is an error."""
        path = self.directory / "junit.xml"
        self.assertRaises(OSError, read, path, "test_small")
        path.write_text("<testsuites><")
        self.assertRaises(ValueError, read, path, "test_small")


class NamesTest(unittest.TestCase):
    """The pure functions."""

    def test_names(self) -> None:
        """What stands before the file's name is left out, however the file was named."""
        table = {
            ("test.inner.test_a.Case", "test_x"): "Case::test_x",
            ("test_a.Outer.Inner", "test_x"): "Outer::Inner::test_x",
            ("test.test_a", "test_x[a.b]"): "test_x[a.b]",
            ("", "test.inner.test_a"): FILE,
            ("test_a", "test_a"): FILE,
            ("inner", "test_a"): FILE,
            ("inner.test_a", "test_a"): "test_a",
            ("other.Case", "test_x"): "other::Case::test_x",
        }
        for (classname, name), expected in table.items():
            with self.subTest(classname):
                self.assertEqual(named(classname, name, "test_a"), expected)

    def test_subtests(self) -> None:
        """Sub-tests count for their test; other names with spaces are tests."""
        entries = [("C::t", PASSED), ("C::t (i=1)", NOT_PASSED), ("C::t (i=2)", SKIPPED), ("u[a b]", PASSED)]
        self.assertEqual(merged(entries), {"C::t": NOT_PASSED, "u[a b]": PASSED})

    def test_joined(self) -> None:
        """A test with different verdicts in different runs has both."""
        runs_of = [{"a": PASSED, "b": PASSED}, {"a": PASSED, "b": SKIPPED}, {"c": SKIPPED}]
        self.assertEqual(joined(runs_of), {"a": PASSED, "b": "passed or skipped", "c": SKIPPED})


if __name__ == "__main__":
    unittest.main()
