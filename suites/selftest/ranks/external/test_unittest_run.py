"""Tests what a test finds out about the run around it."""

from __future__ import annotations

import io
import sys
import unittest
from pathlib import Path

from harness.ranks.external import unittest_run
from harness.ranks.external.unittest_run import UnittestRun

Seen = tuple[UnittestRun, tuple[str, ...]]


class _Kept:
    """Keeps the sample out of the sight of unittest's loader."""

    class Sample(unittest.TestCase):
        """Tests that look around when they run.

        ``seen`` has what each of them finds, and the tests left by then.
        """

        seen: list[Seen]

        def look(self) -> None:
            """Looks around, as a case does when its test begins."""
            run = unittest_run.around(self, sys._getframe(1))
            self.seen.append((run, run.tests))

        test_a = test_b = test_c = look


class AroundTest(unittest.TestCase):
    """Suites in suites."""

    def setUp(self) -> None:
        _Kept.Sample.seen = []

    def suite(self) -> unittest.TestSuite:
        """Three tests, two of them in a suite of their own."""
        inner = unittest.TestSuite([_Kept.Sample("test_b"), _Kept.Sample("test_c")])
        return unittest.TestSuite([_Kept.Sample("test_a"), inner])

    def test_tests_left(self) -> None:
        """A test sees itself and those after it, in all suites around it, and the result of the run."""
        result = unittest.TextTestRunner(stream=io.StringIO()).run(self.suite())
        left = ["".join(name[-1] for name in names) for _, names in _Kept.Sample.seen]
        self.assertEqual(left, ["abc", "bc", "c"])
        for run, _ in _Kept.Sample.seen:
            self.assertIs(run.result, result)
            self.assertEqual(run.modules, {__name__: Path(__file__).resolve()})

    def test_stop(self) -> None:
        """What a test stops runs no test after it."""
        result = unittest.TestResult()
        one = unittest.FunctionTestCase(lambda: _Kept.Sample.seen[0][0].stop())
        unittest.TestSuite([_Kept.Sample("test_a"), one, _Kept.Sample("test_b")]).run(result)
        self.assertEqual((result.testsRun, len(_Kept.Sample.seen)), (2, 1))

    def test_alone(self) -> None:
        """A test without a suite sees itself; without anything, there is nothing."""
        _Kept.Sample("test_a").run(unittest.TestResult())
        run, names = _Kept.Sample.seen[0]
        self.assertIsNone(run.suite)
        self.assertEqual(len(names), 1)
        self.assertEqual((UnittestRun().tests, UnittestRun().modules), ((), {}))
        UnittestRun().stop()


if __name__ == "__main__":
    unittest.main()
