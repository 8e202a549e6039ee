"""Exceptions made into values, whatever they do to prevent it."""

from __future__ import annotations

import pickle
import sys
import threading
import unittest
from typing import Any

from hypothesis import strategies as st

from harness.ranks.exception_info import MESSAGE_CHARS, PICKLE_BYTES, TRACEBACK_CHARS, capture, cut
from suites.selftest.properties import given


class Unspeakable(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class Unpicklable(Exception):
    """``__reduce__`` ends the process, nearly."""

    def __reduce__(self) -> Any:
        raise SystemExit(0)


class OwnFailure(Exception):
    """A case's own ``failureException``."""


def raised(error: BaseException) -> BaseException:
    """The same, with a traceback."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - whatever it is
        return caught


class CaptureTest(unittest.TestCase):
    """``capture`` never raises, and tells what there is."""

    def test_plain(self) -> None:
        """Type, message, traceback with the line, the object."""
        info = capture(raised(ValueError("no such value")))
        self.assertEqual(
            (info.type_name, info.message, info.is_assertion), ("ValueError", "no such value", False)
        )
        self.assertIn("test_exception_info.py", info.traceback)
        self.assertTrue(info.traceback.endswith("ValueError: no such value"))
        assert info.pickled is not None
        self.assertEqual(repr(pickle.loads(info.pickled)), "ValueError('no such value')")

    def test_assertion(self) -> None:
        """By the case's own ``failureException``."""
        self.assertTrue(capture(raised(AssertionError())).is_assertion)
        self.assertTrue(capture(raised(OwnFailure()), OwnFailure).is_assertion)
        self.assertFalse(capture(raised(AssertionError()), OwnFailure).is_assertion)

    def test_frames_of_unittest_are_left_out(self) -> None:
        """A failing assertion ends where the test called it."""
        try:
            self.assertEqual(1, 2)
        except AssertionError as error:
            info = capture(error)
        self.assertNotIn("unittest/case.py", info.traceback)
        self.assertIn("self.assertEqual(1, 2)", info.traceback)

    def test_type_names(self) -> None:
        """Qualified unless built in."""
        self.assertEqual(capture(OwnFailure()).type_name, f"{__name__}.OwnFailure")
        self.assertEqual(capture(KeyError("x")).type_name, "KeyError")

    def test_unspeakable(self) -> None:
        """Described without its text."""
        info = capture(raised(Unspeakable()))
        self.assertIn("str() of the exception raised KeyboardInterrupt", info.message)
        self.assertIn("Unspeakable", info.traceback)

    def test_unpicklable(self) -> None:
        """Text only."""
        for error in (Unpicklable("text"), ValueError(threading.Lock())):
            self.assertIsNone(capture(raised(error)).pickled)
        self.assertEqual(capture(Unpicklable("text")).message, "text")

    def test_big(self) -> None:
        """Cut in the middle, and no longer brought as an object."""
        info = capture(raised(ValueError("begin" + "x" * 5_000_000 + "end")))
        self.assertLessEqual(len(info.message), MESSAGE_CHARS + 100)
        self.assertLessEqual(len(info.traceback), TRACEBACK_CHARS + 100)
        self.assertTrue(info.message.startswith("begin") and info.message.endswith("end"))
        self.assertGreater(5_000_000, PICKLE_BYTES)
        self.assertIsNone(info.pickled)

    def test_chain(self) -> None:
        """Causes and contexts are in the traceback."""
        try:
            try:
                raise KeyError("first")
            except KeyError as first:
                raise ValueError("second") from first
        except ValueError as second:
            text = capture(second).traceback
        self.assertLess(text.index("KeyError: 'first'"), text.index("direct cause"))
        self.assertLess(text.index("direct cause"), text.index("ValueError: second"))

    def test_long_chain(self) -> None:
        """A thousand causes are bounded."""
        error: BaseException = ValueError("innermost")
        for number in range(1000):
            outer = ValueError(f"layer {number}")
            outer.__cause__ = error
            error = outer
        info = capture(raised(error))
        self.assertLessEqual(len(info.traceback), TRACEBACK_CHARS + 100)
        self.assertEqual(info.message, "layer 999")

    @unittest.skipIf(sys.version_info < (3, 11), "ExceptionGroup came with Python 3.11")
    def test_group(self) -> None:
        """Every member."""
        group = sys.modules["builtins"].__dict__["ExceptionGroup"]  # Python 3.10 has no such name
        text = capture(raised(group("several", [ValueError("one"), TypeError("two")]))).traceback
        for words in ("several", "ValueError: one", "TypeError: two"):
            self.assertIn(words, text)

    def test_without_traceback(self) -> None:
        """One that was never raised."""
        self.assertEqual(capture(ValueError("new")).traceback, "ValueError: new")

    @given(st.text(st.characters(codec=None, exclude_categories=())))
    def test_any_message(self, message: str) -> None:
        """Lone surrogates too."""
        info = capture(ValueError(message))
        self.assertEqual(info.message, message)


class CutTest(unittest.TestCase):
    """``cut``."""

    @given(st.text(max_size=300), st.integers(2, 100))
    def test_cut(self, text: str, limit: int) -> None:
        """Short texts stay; of long ones both ends stay, and the number of what is missing is right."""
        short = cut(text, limit)
        if len(text) <= limit:
            self.assertEqual(short, text)
            return
        keep = limit // 2
        self.assertTrue(short.startswith(text[:keep]) and short.endswith(text[-keep:]))
        self.assertIn(f"[... {len(text) - 2 * keep} characters left out ...]", short)


if __name__ == "__main__":
    unittest.main()
