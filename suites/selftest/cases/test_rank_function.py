"""Tests what a mark for test functions on ranks may say, and what is told of their sub-tests."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

from harness.cases.rank_function import RanksMark, run
from harness.errors import UsageError


class MarkTest(unittest.TestCase):
    """``RanksMark.of``, which says what is wrong in one line."""

    def test_table(self) -> None:
        """Arguments of the mark, and the mark or the words of the error."""
        table: list[tuple[tuple[Any, ...], dict[str, Any], Any]] = [
            ((4,), {}, RanksMark(4)),
            ((), {"world_size": 2, "backend": None, "mode": "threads"}, RanksMark(2, None, "threads")),
            ((), {}, "@pytest.mark.ranks(): write @pytest.mark.ranks(4)"),
            ((2,), {"size": 2}, "@pytest.mark.ranks(2, size=2): write"),
            ((0,), {}, "the number of ranks is 1 or more"),
            ((True,), {}, "the number of ranks is 1 or more"),
            ((2,), {"mode": "local"}, "mode is one of fresh, pooled, threads"),
        ]
        for args, kwargs, expected in table:
            with self.subTest(args=args, kwargs=kwargs):
                try:
                    found: object = RanksMark.of(args, kwargs)
                except UsageError as error:
                    self.assertIn(expected, str(error))
                    self.assertNotIn("\n", str(error))
                else:
                    self.assertEqual(found, expected)


class RunTest(unittest.TestCase):
    """``run``, of a case with a sub-test that fails."""

    def setUp(self) -> None:
        def test(case: unittest.TestCase) -> None:
            for n in range(2):
                with case.subTest("step", n=n):
                    case.assertEqual(n, 0)

        self.case: Any = type("Case", (unittest.TestCase,), {"test": test})("test")

    def test_reported(self) -> None:
        """Each failed sub-test is reported with its message and parameters, and raised by nobody else."""
        found: list[Any] = []
        run(self.case, found.append)
        ((msg, parameters, error),) = [(each.msg, each.parameters, each.error) for each in found]
        self.assertEqual((msg, parameters, type(error)), ("step", {"n": 1}, AssertionError))

    def test_raised(self) -> None:
        """It is the test's failure where nobody takes the report."""
        self.assertRaisesRegex(AssertionError, "1 != 0", run, self.case)

    def test_expected_by_the_decorator(self) -> None:
        """What unittest's decorator expects is not passed in silence: neither a failure nor a success."""
        kind: Any = unittest.expectedFailure(type("Case", (unittest.TestCase,), {"test": lambda self: 1 / 0}))
        self.assertRaisesRegex(pytest.xfail.Exception, "division by zero", run, kind("test"))
        kind.test = lambda self: None
        self.assertRaisesRegex(AssertionError, "unexpected success", run, kind("test"))


if __name__ == "__main__":
    unittest.main()
