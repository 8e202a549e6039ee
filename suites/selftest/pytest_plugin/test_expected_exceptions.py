"""Tests when what ranks raised is what a mark ``xfail(raises=...)`` or a ``condition`` of reruns expects."""

from __future__ import annotations

import re
import unittest
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from harness.errors import RankError
from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome, TestOutcome
from harness.pytest_plugin.expected_exceptions import name_cause, raised_by_ranks, show_to_condition
from harness.ranks.exception_info import capture


class Matcher:
    """Stands for what ``pytest.RaisesExc`` makes."""

    def matches(self, error: BaseException) -> bool:
        return re.search("of rank 1", str(error)) is not None


def problem(*ranks: RankOutcome) -> RankError:
    """The exception of a test whose ranks ended so."""
    return RankError("text", TestOutcome(Status.ERROR, ranks))


def raised(rank: int, error: Exception) -> RankOutcome:
    return RankOutcome(rank, Status.ERROR, error=capture(error))


class ExpectedTest(unittest.TestCase):
    """When ``raised_by_ranks`` says yes, by what each rank raised."""

    def test_table(self) -> None:
        passed = RankOutcome(0, Status.PASSED)
        missing = raised(1, FileNotFoundError("of rank 1"))
        no_pickle = replace(missing, error=ErrorInfo("some.Error", "of rank 1", "trace"))
        subtest = SubtestOutcome(None, (), Status.ERROR, capture(KeyError(1)))
        table = [
            ("its own", (passed, missing), FileNotFoundError, True),
            ("a base", (passed, missing), OSError, True),
            ("one of several", (missing,), (KeyError, OSError), True),
            ("another", (passed, missing), KeyError, False),
            ("one rank another", (raised(0, KeyError(1)), missing), OSError, False),
            ("a matcher", (missing,), Matcher(), True),
            ("no match", (raised(1, OSError("else")),), Matcher(), False),
            ("by name", (no_pickle,), type("Error", (Exception,), {"__module__": "some"}), True),
            ("by another name", (no_pickle,), type("Error", (Exception,), {"__module__": "other"}), False),
            ("a sub-test", (RankOutcome(0, Status.ERROR, subtests=(subtest,)),), KeyError, True),
            ("a sub-test besides", (replace(missing, subtests=(subtest,)),), OSError, False),
            ("died later", (replace(missing, status=Status.CRASHED),), OSError, False),
            ("died", (RankOutcome(0, Status.CRASHED, exit_code=-9),), OSError, False),
            ("nothing bad", (passed,), OSError, False),
        ]
        for name, ranks, raises, expected in table:
            with self.subTest(name):
                self.assertEqual(raised_by_ranks(problem(*ranks), raises), expected)

    def test_cause(self) -> None:
        """What the first rank to fail raised is the exception's cause, where it can be unpickled."""
        missing = raised(1, FileNotFoundError("of rank 1"))
        no_pickle = replace(missing, error=ErrorInfo("some.Error", "of rank 1", "trace"))
        died = RankOutcome(1, Status.CRASHED, exit_code=-9)
        for rank, wanted in ((missing, FileNotFoundError), (no_pickle, type(None)), (died, type(None))):
            error = RankError("text", TestOutcome(Status.ERROR, (raised(0, KeyError(1)), rank), root_cause=1))
            name_cause(error)
            self.assertIsInstance(error.__cause__, wanted)
        given = problem(missing)
        given.__cause__ = KeyError(1)
        name_cause(given)
        self.assertIsInstance(given.__cause__, KeyError)
        name_cause(OSError())

    def test_other_errors(self) -> None:
        """What is not of ranks is pytest's to compare."""
        for error in (OSError(), RankError("text")):
            self.assertFalse(raised_by_ranks(error, OSError))


class ConditionTest(unittest.TestCase):
    """``show_to_condition``, with an item and a plugin that stand for pytest's."""

    def condition(self, evaluate: object, given: object) -> Any:
        """The condition that an item has afterwards, whose mark had one, asked for twice."""
        marks = [pytest.Mark("flaky", (), {"reruns": 2, "condition": given}, _ispytest=True)]
        plugins = SimpleNamespace(get_plugin=lambda name: SimpleNamespace(evaluate_condition=evaluate))
        item: Any = SimpleNamespace(
            config=SimpleNamespace(pluginmanager=plugins),
            get_closest_marker=lambda name: marks[0],
            add_marker=lambda mark, append: marks.insert(0, mark.mark),
        )
        for _ in range(2):
            show_to_condition(item)
        self.assertLessEqual(len(marks), 2)
        self.assertEqual(marks[0].kwargs["reruns"], 2)
        return marks[0].kwargs["condition"]

    def test_error(self) -> None:
        """It is what a rank raised, and else the test's own."""

        def evaluate(item: object, mark: object, condition: object, excinfo: Any = None) -> Any:
            return condition, excinfo.value

        found = self.condition(evaluate, "error")
        for error, cause in ((problem(), None), (problem(), KeyError(1)), (OSError(), KeyError(1))):
            error.__cause__ = cause
            seen = cause if cause is not None and not isinstance(error, OSError) else error
            self.assertEqual(found(error), ("error", seen))

    def test_without_error(self) -> None:
        """What takes no error stays: a value, and conditions of an older release."""
        self.assertIs(self.condition(lambda item, mark, condition, excinfo=None: True, True), True)
        self.assertEqual(self.condition(lambda item, mark, condition: True, "1 > 0"), "1 > 0")


if __name__ == "__main__":
    unittest.main()
