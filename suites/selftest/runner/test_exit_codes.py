"""Tests which exit code a finished run gets."""

from __future__ import annotations

import itertools
import unittest
from typing import Any

from harness.runner import exit_codes
from harness.runner.exit_codes import ExitCode

CLEAN: dict[str, Any] = {
    "ran": 3,
    "failed": 0,
    "flaky": 0,
    "flaky_fails": False,
    "interrupted": False,
    "broken": False,
}


def decide(**given: Any) -> ExitCode:
    """Decides on a clean run of three tests with some values changed."""
    return exit_codes.decide(**{**CLEAN, **given})


class DecideTest(unittest.TestCase):
    """``decide``, which chooses the exit code of a run."""

    def test_table(self) -> None:
        """Each thing that can be wrong with a run has its own exit code."""
        table: tuple[tuple[dict[str, Any], int], ...] = (
            ({}, 0),
            ({"failed": 1}, 1),
            ({"flaky": 1}, 0),
            ({"flaky": 1, "flaky_fails": True}, 1),
            ({"flaky_fails": True}, 0),
            ({"broken": True}, 3),
            ({"ran": 0}, 5),
            ({"interrupted": True}, 130),
        )
        for given, code in table:
            with self.subTest(given):
                self.assertEqual(decide(**given), code)

    def test_precedence(self) -> None:
        """An interruption goes before a failure, then comes a broken harness, then an empty run."""
        wrongs: list[tuple[dict[str, Any], ExitCode]] = [
            ({"interrupted": True}, ExitCode.INTERRUPTED),
            ({"failed": 2}, ExitCode.FAILED),
            ({"broken": True}, ExitCode.BROKEN),
            ({"ran": 0}, ExitCode.NOTHING_RAN),
        ]
        for (first, code), (second, _) in itertools.combinations(wrongs, 2):
            with self.subTest(first=first, second=second):
                self.assertEqual(decide(**first, **second), code)


class MeaningsTest(unittest.TestCase):
    """``MEANINGS``, the text of --help on exit codes."""

    def test_complete(self) -> None:
        """Each exit code has a meaning, and no two have the same one."""
        self.assertEqual(set(exit_codes.MEANINGS), set(ExitCode))
        self.assertEqual(len(set(exit_codes.MEANINGS.values())), len(ExitCode))


if __name__ == "__main__":
    unittest.main()
