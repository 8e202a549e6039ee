"""Tests what is said of a test's method that was called without the arguments that it takes."""

from __future__ import annotations

import unittest

from harness.cases.missing_arguments import hints
from harness.outcomes import ErrorInfo, RankOutcome, Status, TestOutcome


class Sums:
    """Stands for a case with a method that nobody parametrizes."""

    _testMethodName = "test_sum"

    def test_sum(self, op: str, *, root: int) -> None:
        """Is never called with its arguments."""


def python_says(*args: str) -> str:
    """What Python itself says of the call with these arguments."""
    try:
        Sums().test_sum(*args)  # type: ignore[call-arg]  # the missing ones are what it is about
    except TypeError as error:
        return str(error)
    raise AssertionError("nothing is missing")


class HintsTest(unittest.TestCase):
    """A hint for the test's own method, and for no other call."""

    def test_errors(self) -> None:
        """Errors of a rank, and the arguments that the hint names."""
        table = {
            ("TypeError", python_says()): "nobody gives 'op' a value: ",
            ("TypeError", python_says("SUM")): "nobody gives 'root' a value: ",
            ("TypeError", "Sums.helper() missing 1 required positional argument: 'op'"): "",
            ("TypeError", "unsupported operand"): "",
            ("RuntimeError", python_says()): "",
        }
        for (type_name, message), said in table.items():
            with self.subTest(message, type_name=type_name):
                error = ErrorInfo(type_name, message, "trace")
                ranks = tuple(RankOutcome(rank, Status.ERROR, error=error) for rank in range(2))
                found = hints(Sums(), TestOutcome(Status.ERROR, ranks))
                self.assertEqual(len(found), bool(said), found)
                self.assertTrue("".join(found).startswith(said), found)
                if said:
                    self.assertIn("instantiate_parametrized_tests(Sums) has to stand below", found[0])


if __name__ == "__main__":
    unittest.main()
