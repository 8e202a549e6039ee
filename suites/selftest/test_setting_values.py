"""Tests the parsers of settings: what each takes, and what it says of a text that it does not take."""

from __future__ import annotations

import unittest
from collections.abc import Callable

from harness.setting_values import (
    LARGEST_MULTIPLIER,
    LARGEST_SEED,
    LONGEST_S,
    duration,
    name_of_backend,
    name_of_device,
    name_of_module,
    one_of,
    positive_seconds,
    seed_number,
    timeout_multiplier,
    whole_number,
    whole_number_above_0,
)

COLOURS = one_of(("red", "blue"))
BEYOND_S = str(2 * LONGEST_S)

TAKEN: tuple[tuple[Callable[[str], object], str, object], ...] = (
    (duration, "0", 0.0),
    (duration, "2.5", 2.5),
    (duration, str(LONGEST_S), LONGEST_S),
    (positive_seconds, "1e-3", 0.001),
    (positive_seconds, str(LONGEST_S), LONGEST_S),
    (timeout_multiplier, "0.5", 0.5),
    (timeout_multiplier, str(LARGEST_MULTIPLIER), float(LARGEST_MULTIPLIER)),
    (name_of_backend, "Gloo", "gloo"),
    (name_of_device, "cuda", "cuda"),
    (name_of_module, "mine", "mine"),
    (name_of_module, "package.module", "package.module"),
    (whole_number, "0", 0),
    (whole_number_above_0, "1", 1),
    (seed_number, str(LARGEST_SEED), LARGEST_SEED),
    (COLOURS, "blue", "blue"),
)

NOT_TAKEN: tuple[tuple[Callable[[str], object], str, tuple[str, ...]], ...] = (
    (duration, "a number of seconds", ("-1", "nan", "inf", BEYOND_S, "soon")),
    (positive_seconds, "a number of seconds", ("0", "-1", "nan", "inf", BEYOND_S, "2 min")),
    (timeout_multiplier, "a number above 0, up to 1000", ("0", "-2", "nan", "1001", "x2")),
    (name_of_backend, "the name of one backend", ("", "cpu:gloo", "gloo,nccl")),
    (name_of_device, "a device type without an index", ("", "cuda:0")),
    (name_of_module, "the full name of a module", ("", ".mine", "mine.", "mine.py:x", "a/b")),
    (whole_number, "a whole number, 0 or more", ("-1", "1.5", "\u00b2", "\u0663")),
    (whole_number_above_0, "a whole number", ("0", "-1")),
    (seed_number, "a whole number", (str(LARGEST_SEED + 1), "-1")),
    (COLOURS, "one of red, blue", ("Red", "", "red,blue")),
)


class ParsersTest(unittest.TestCase):
    """Each parser, at and beyond its bounds."""

    def test_taken(self) -> None:
        """A text that is such a value."""
        for parse, text, value in TAKEN:
            with self.subTest(parse=parse.__name__, text=text):
                self.assertEqual(parse(text), value)

    def test_not_taken(self) -> None:
        """Any other one: the error says what to write, in one line."""
        for parse, what, texts in NOT_TAKEN:
            for text in texts:
                with self.subTest(parse=parse.__name__, text=text):
                    with self.assertRaises(ValueError) as caught:
                        parse(text)
                    self.assertIn(f"write {what}", str(caught.exception))
                    self.assertNotIn("\n", str(caught.exception))


if __name__ == "__main__":
    unittest.main()
