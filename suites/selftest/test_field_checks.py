"""Tests which values the plain fields of a message may have."""

from __future__ import annotations

import math
import unittest
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.field_checks import LARGEST_NUMBER, LARGEST_S, checked, checked_columns


@dataclass(frozen=True, slots=True)
class Message:
    """A message with a field of each kind."""

    text: str
    word: str | None
    number: int
    seconds: float | None
    flag: bool
    many: list[str]
    table: Mapping[str, Any]
    texts: Mapping[str, str]
    others: list[list[str]]


# Values that each field may have, and values that it may not.
ROWS: dict[str, tuple[list[Any], list[Any]]] = {
    "text": (["", "a"], [None, 1, b"a", ["a"]]),
    "word": (["a", None], [1, False]),
    "number": (
        [0, -7, LARGEST_NUMBER - 1],
        [1.0, True, "1", None, LARGEST_NUMBER, 10**5000],
    ),
    "seconds": (
        [0, 0.5, LARGEST_S, None],
        ["1", True, LARGEST_S + 1, math.inf, -math.inf, math.nan, 1e300, 10**5000],
    ),
    "flag": ([True, False], [0, 1, None]),
    "many": ([["a"], ("a", "b"), []], [None, "a", ["a", 1], [["a"]]]),
    "table": ([{}, {"a": 10**5000}], [None, []]),
    "texts": ([{}, {"a": "b"}], [None, {"a": 1}, {"a": None}]),
    "others": ([None, 10**5000], []),
    "unknown": ([1, None], []),
}


class CheckedTest(unittest.TestCase):
    """``checked``, field by field."""

    def test_columns(self) -> None:
        """A list of values of a plain field comes back, if all fit and are as many as is said."""
        for name, (fine, wrong) in ROWS.items():
            with self.subTest(name):
                columns = {name: fine}
                self.assertIs(checked_columns(Message, columns, len(fine)), columns)
                for value, length in ((fine, len(fine) + 1), (tuple(fine), len(fine)), (None, 0)):
                    with self.assertRaises(ValueError):
                        checked_columns(Message, {name: value}, length)  # type: ignore[dict-item]  # wrong
            for value in wrong:
                with self.subTest(name, value=type(value)), self.assertRaises(ValueError):
                    checked_columns(Message, {name: [*fine, value]}, len(fine) + 1)

    def test_rows(self) -> None:
        """A value of a plain field's type comes back, any other raises; other fields are not looked at."""
        for name, (fine, wrong) in ROWS.items():
            for value in fine:
                with self.subTest(name, value=type(value)):
                    self.assertEqual(checked(Message, {name: value}), {name: value})
            for value in wrong:
                with self.subTest(name, value=type(value)), self.assertRaises(ValueError):
                    checked(Message, {name: value})


if __name__ == "__main__":
    unittest.main()
