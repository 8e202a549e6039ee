"""Tests that a test's ranks warn by the filters that pytest has for it, in real runs."""

from __future__ import annotations

import re
import unittest

from suites.selftest.pytest_plugin.runs import PytestCase

# Each body stands in a test without ranks, which says what pytest does, and in three with ranks.
BODIES = """
from harness import MultiProcContinuousTest

class Own(UserWarning):
    pass

def warn(category=UserWarning):
    warnings.warn("of the test", category)

ignores_own = pytest.mark.filterwarnings("ignore::test_it.Own")
error = pytest.mark.filterwarnings("error")

class Bodies:
    def test_plain(self):
        warn()

    @error
    def test_mark(self):
        warn()

    @error
    @ignores_own
    def test_two_marks(self):
        warn(Own)

    @ignores_own
    @error
    def test_two_marks_turned(self):
        warn(Own)

    @error
    def test_caught(self):
        with pytest.warns(Own):
            warn(Own)

    @error
    def test_quiet(self):
        pass

    def test_then_plain(self):  # pytest runs it after test_quiet, in each of the classes
        warn()

class TestNoRanks(Bodies):
    pass

@pytest.mark.ranks(2)
class TestFunction(Bodies):
    pass

class TestProcess(Bodies, MultiProcessTestCase):
    world_size = 2

class TestPooled(Bodies, MultiProcContinuousTest):
    world_size = 2

class TestThreads(Bodies, MultiThreadedTestCase):
    world_size = 2
"""
CLASSES = ("TestNoRanks", "TestFunction", "TestProcess", "TestPooled", "TestThreads")
NAMES = ("plain", "mark", "two_marks", "two_marks_turned", "caught", "quiet", "then_plain")


class FiltersTest(PytestCase):
    """Marks, settings and ``-W``, each in all kinds of tests."""

    def failed(self, *arguments: str) -> dict[str, list[str]]:
        """Runs the bodies and returns the names of those that failed, by class."""
        run = self.pytest("-rfE", "--tb=no", *arguments)
        self.assertLessEqual(run.counts.keys(), {"passed", "failed", "deselected", "warnings"}, run.out)
        found = re.findall(r"(?m)^FAILED test_it\.py::(\w+)::test_(\w+)", run.out)
        return {cls: [name for name in NAMES if (cls, name) in found] for cls in CLASSES}

    def assert_all_like(self, found: dict[str, list[str]], wanted: list[str]) -> None:
        """Asserts which bodies failed without ranks, and that the same ones did with ranks."""
        self.assertEqual(found, dict.fromkeys(CLASSES, wanted))

    def test_marks(self) -> None:
        """A mark acts in ranks; kept ranks forget that of the test before."""
        self.write("test_it.py", BODIES)
        self.assert_all_like(self.failed(), ["mark", "two_marks"])

    def test_settings(self) -> None:
        """So does ``filterwarnings`` of the settings, in ranks that are new interpreters too."""
        self.write("pytest.ini", "[pytest]\nfilterwarnings =\n    error\n    ignore:nothing\n")
        self.write("test_it.py", BODIES)
        self.assert_all_like(self.failed("-k", "test_plain"), ["plain"])
        new = self.failed("--rank-launcher", "spawn", "-k", "TestProcess and (test_plain or caught)")
        self.assertEqual(new["TestProcess"], ["plain"])

    def test_option(self) -> None:
        """So does ``-W``, and with ``-p no:warnings`` nothing does."""
        self.write("test_it.py", BODIES)
        of_one = ("-k", "test_plain")
        self.assert_all_like(self.failed("-W", "error:of the test", *of_one), ["plain"])
        self.assert_all_like(self.failed("-W", "error", "-p", "no:warnings", *of_one), [])


if __name__ == "__main__":
    unittest.main()
