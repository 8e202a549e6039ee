"""Tests what is told of the sub-tests of test functions on ranks."""

from __future__ import annotations

import unittest
from typing import Any

import pytest

from harness.cases.rank_function import run


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
