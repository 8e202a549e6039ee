"""Tests what pytest's functions mean in ranks, by unittest, by pytest and by ``run_tests.py``, in all modes.

unittest alone takes the exceptions of ``pytest.skip``, ``pytest.fail`` and ``pytest.xfail`` for errors.
"""

from __future__ import annotations

import re
import unittest

from suites.selftest import warm_python
from suites.selftest.pytest_plugin.runs import PytestCase
from suites.selftest.run.scripts import TREE
from suites.selftest.runner.runs import PATIENCE_S, environ, journal_records

HELPERS = """
import pytest

def skips(): pytest.skip("not here")
def lacks(): pytest.importorskip("made_by_nobody")
def fails(): pytest.fail("no")
def expects(): pytest.xfail("known")
"""
MODULE = """
import os, unittest, warnings
import helpers
from harness import MultiProcessTestCase

class Ranks(MultiProcessTestCase):
    world_size = 2

    def test_skip(self): helpers.skips()
    def test_import(self): helpers.lacks()
    def test_fail(self): helpers.fails()
    def test_xfail(self): helpers.expects()
    def test_xfail_on_one(self):
        if self.rank == 1: helpers.expects()
    def test_xfail_and_fail(self):
        self.fail("no") if self.rank == 0 else helpers.expects()
    def test_xfail_and_cleanup(self):
        self.addCleanup(self.fail, "no")
        helpers.expects()
    @unittest.expectedFailure
    def test_xfail_twice(self): helpers.expects()
    @unittest.expectedFailure
    def test_expected_failure(self): helpers.fails()
    def test_subtest_skip(self):
        with self.subTest(n=1): helpers.skips()
    def test_subtest_fail(self):
        with self.subTest(n=1): helpers.fails()
        with self.subTest(n=2): pass
    def test_subtest_xfail(self):
        with self.subTest(n=1): helpers.expects()
    def test_assertions(self):
        with helpers.pytest.raises(ValueError, match="x"): raise ValueError("x")
        with helpers.pytest.warns(UserWarning): warnings.warn("w")
        self.assertEqual(0.1 + 0.2, helpers.pytest.approx(0.3))
        with self.assertRaises(BaseException):
            with helpers.pytest.raises(ValueError): pass

class SetUp(MultiProcessTestCase):
    world_size = 2
    def setUpRank(self): helpers.skips()
    def test_set_up(self): self.fail("ran")

class TearDown(MultiProcessTestCase):
    world_size = 2
    def tearDownRank(self): helpers.expects()
    def test_tear_down(self): pass
"""
# What becomes of each test: by unittest, and where pytest's word differs, by pytest.
FAILED = {"fail", "xfail_and_fail", "xfail_and_cleanup", "subtest_fail"}
SKIPPED = {"skip", "import", "set_up"}
EXPECTED = {
    *("xfail", "xfail_on_one", "xfail_twice", "expected_failure", "subtest_xfail", "tear_down"),
}
PASSED = {"assertions"}  # and the test with a skipped sub-test, of which unittest says nothing else


class PytestFunctionsTest(PytestCase):
    """A module whose ranks call pytest's functions through a helper."""

    def setUp(self) -> None:
        super().setUp()
        self.write("helpers.py", HELPERS)
        self.write("test_called.py", MODULE, head="")

    def run_by(self, *command: str, **variables: str) -> str:
        """What a command prints."""
        done = warm_python.run(
            command,
            cwd=self.project,
            env=environ(self.project, PYTHONPATH=str(TREE), **variables),
            timeout=PATIENCE_S,
        )
        return done.stdout

    def assert_by_unittest(self, **variables: str) -> None:
        """Checks each test's verdict where unittest runs it."""
        out = self.run_by("-m", "unittest", "-v", "test_called", **variables)
        # Of a failed sub-test Python 3.10 tells in the summary alone: the next test stands on its line then.
        self.assertEqual(set(re.findall(r"(?m)^FAIL: test_(\w+) \(", out)), FAILED, out)
        rows = (
            ("skipped ['\"]", SKIPPED | {"subtest_skip"}),
            ("expected failure", EXPECTED),
            ("ok", PASSED),
        )
        for word, names in rows:
            found = set(re.findall(rf"test_(\w+) \([\w.]+\)(?: \(n=1\))? \.\.\. {word}", out))
            self.assertEqual(found, names, f"{word}\n{out}")
        self.assertIn("skipped 'not here'", out)

    def test_fresh(self) -> None:
        """On fresh ranks."""
        self.assert_by_unittest()

    def test_pooled(self) -> None:
        """On kept ranks."""
        self.assert_by_unittest(HARNESS_RANKS="pooled")

    def test_threads(self) -> None:
        """On ranks that are threads."""
        self.assert_by_unittest(HARNESS_RANKS="threads")

    def test_by_pytest(self) -> None:
        """pytest says the same, with pytest's reasons."""
        run = self.pytest("-rA", "test_called.py")
        for word, names in (("XFAIL", EXPECTED), ("PASSED", PASSED | {"subtest_skip"})):
            found = set(re.findall(rf"(?m)^{word} .*::test_(\w+)", run.out))
            self.assertEqual(found - {"subtest_fail"}, names, f"{word}\n{run.out}")
        self.assertRegex(run.out, r"XFAIL .*::test_xfail - known")
        for name in FAILED:
            self.assertRegex(run.out, rf"FAILED.* test_called.py::\w+::test_{name} ")
        self.assertRegex(run.out, r"SKIPPED .*: not here")

    def test_by_the_runner(self) -> None:
        """So does ``run_tests.py``."""
        out = self.run_by(str(TREE / "run_tests.py"), "test_called.py")
        found = {r.id.rpartition(".test_")[2]: r.status.value for r in journal_records(self.project)}
        expected = {
            **dict.fromkeys(FAILED, "failed"),
            **dict.fromkeys(SKIPPED, "skipped"),
            **dict.fromkeys(EXPECTED, "expected failure"),
            **dict.fromkeys(PASSED | {"subtest_skip"}, "passed"),
        }
        self.assertEqual(found, expected, out)


CURRENT = """
import os
from harness import MultiProcessTestCase

class Ranks(MultiProcessTestCase):
    world_size = 2

    def setUp(self):
        super().setUp()
        self._spawn_processes()

    def seen(self, name):
        self.assertEqual(os.environ["PYTEST_CURRENT_TEST"], f"test_current.py::Ranks::{name} (call)")
    def test_first(self): self.seen("test_first")
    def test_second(self): self.seen("test_second")
"""


class CurrentTestTest(PytestCase):
    """What ranks see of the variable in which pytest names the test that runs."""

    def test_by_pytest(self) -> None:
        """The name of their own test, on kept ranks too, each time."""
        self.write("test_current.py", CURRENT, head="")
        for mode in ("fresh", "pooled"):
            with self.subTest(mode):
                run = self.pytest("test_current.py", HARNESS_RANKS=mode)
                self.assertEqual(run.counts, {"passed": 2}, run.out)


if __name__ == "__main__":
    unittest.main()
