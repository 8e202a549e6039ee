"""Tests when a rank other than 0 shows what unittest printed in it."""

from __future__ import annotations

import io
import unittest
from typing import NoReturn

from harness.ranks.external.held_report import HeldReport, hold, settle


class _Kept:
    """Keeps the sample out of the sight of unittest's loader."""

    class Sample(unittest.TestCase):
        """A test that passes, one that fails, and one with a failing sub-test."""

        def test_pass(self) -> None:
            """Passes."""

        def test_fail(self) -> NoReturn:
            """Fails."""
            self.fail("as planned")

        def test_sub(self) -> None:
            """Fails in a sub-test."""
            with self.subTest(number=1):
                self.fail("as planned")


class HeldTest(unittest.TestCase):
    """Runs by unittest's runner whose report is held from their first test on."""

    def run_held(self, *names: str, of_ranks: bool = True, speaks: bool = False) -> str:
        """What is printed in the end of a run of these tests in rank 3."""
        stream = io.StringIO()
        runner = unittest.TextTestRunner(stream=stream)
        suite = unittest.TestSuite([_Kept.Sample(name) for name in names])
        kept: list[HeldReport] = []
        begin = unittest.FunctionTestCase(lambda: kept.append(self.held(runner)))
        result = runner.run(unittest.TestSuite([begin, suite]))
        self.assertEqual(stream.getvalue(), "", "printed before the end")
        settle(kept[0], result, 3, [_Kept.Sample(n).id() for n in names if of_ranks], speaks=speaks)
        return stream.getvalue()

    def held(self, runner: unittest.TextTestRunner) -> HeldReport:
        """Holds the report of a runner, by a result that shares its stream."""
        held = hold(unittest.TextTestResult(runner.stream, descriptions=True, verbosity=1))
        assert held is not None
        return held

    def test_line(self) -> None:
        """A line stands for what rank 0 says as well, sub-tests included."""
        for names, said in (
            (("test_pass",), "ran 2 tests, 0 bad"),
            (("test_pass", "test_fail", "test_sub"), "ran 4 tests, 2 bad"),
        ):
            with self.subTest(names):
                self.assertEqual(self.run_held(*names), f"harness: rank 3: {said}; rank 0 reports them\n")

    def test_whole(self) -> None:
        """A failure that rank 0 does not know of is told, and so is all where this rank speaks for rank 0."""
        for name, given in (("own", {"of_ranks": False}), ("speaks", {"speaks": True})):
            with self.subTest(name):
                told = self.run_held("test_pass", "test_fail", **given)
                self.assertIn("AssertionError: as planned", told)
                self.assertIn("Ran 3 tests", told)

    def test_other_results(self) -> None:
        """A result without a runner's stream is left alone, and one that is held is not held again."""
        self.assertIsNone(hold(unittest.TestResult()))
        self.assertIsNone(hold(None))
        result = unittest.TextTestResult(
            unittest.TextTestRunner(stream=io.StringIO()).stream, descriptions=True, verbosity=1
        )
        self.assertIsNotNone(hold(result))
        self.assertIsNone(hold(result))


if __name__ == "__main__":
    unittest.main()
