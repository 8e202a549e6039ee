"""Tests that every exception becomes a value, whatever it does to prevent that."""

from __future__ import annotations

import pickle
import sys
import threading
import unittest
from typing import Any

from hypothesis import strategies as st

from harness.cases import backend_names
from harness.errors import MethodNotRun, UsageError
from harness.ranks.exception_info import MESSAGE_CHARS, PICKLE_BYTES, TRACEBACK_CHARS, capture, cut
from suites.selftest.properties import given


class Unspeakable(Exception):
    """An exception whose text cannot be had."""

    def __str__(self) -> str:
        raise KeyboardInterrupt

    __repr__ = __str__


class Unpicklable(Exception):
    """An exception whose ``__reduce__`` raises SystemExit."""

    def __reduce__(self) -> Any:
        raise SystemExit(0)


class OwnFailure(Exception):
    """A ``failureException`` of a case's own."""


def raised(error: BaseException) -> BaseException:
    """Returns the exception after it was raised, so that it has a traceback."""
    try:
        raise error
    except BaseException as caught:  # noqa: BLE001 - it must catch every kind
        return caught


class CaptureTest(unittest.TestCase):
    """``capture``, which makes a value of an exception and never raises."""

    def test_method_not_run(self) -> None:
        """What the harness says of a method that did not run comes without its own and unittest's frames."""
        info = capture(raised(MethodNotRun("returned a coroutine")))
        self.assertEqual(info.traceback, "harness.errors.MethodNotRun: returned a coroutine")

    def test_mistake(self) -> None:
        """A mistake that no line of the test makes comes without frames; any other has the line."""
        try:
            backend_names.check_in_rank("pigeon")
        except UsageError as error:
            users = capture(error)
            assert error.__traceback__ is not None
            ours = capture(error.with_traceback(error.__traceback__.tb_next))
        self.assertIn("test_exception_info.py", users.traceback)
        self.assertEqual(ours.traceback, f"harness.errors.UsageError: {ours.message}")

    def test_plain(self) -> None:
        """It keeps the type, the message, the traceback with the line, and the pickled exception."""
        info = capture(raised(ValueError("no such value")))
        self.assertEqual(
            (info.type_name, info.message, info.is_assertion), ("ValueError", "no such value", False)
        )
        self.assertIn("test_exception_info.py", info.traceback)
        self.assertTrue(info.traceback.endswith("ValueError: no such value"))
        assert info.pickled is not None
        self.assertEqual(repr(pickle.loads(info.pickled)), "ValueError('no such value')")

    def test_assertion(self) -> None:
        """The case's own ``failureException`` decides what an assertion is."""
        self.assertTrue(capture(raised(AssertionError())).is_assertion)
        self.assertTrue(capture(raised(OwnFailure()), OwnFailure).is_assertion)
        self.assertFalse(capture(raised(AssertionError()), OwnFailure).is_assertion)

    def test_frames_of_unittest_are_left_out(self) -> None:
        """The traceback of a failing assertion ends where the test called it, without unittest's frames."""
        try:
            self.assertEqual(1, 2)
        except AssertionError as error:
            info = capture(error)
        self.assertNotIn("unittest/case.py", info.traceback)
        self.assertIn("self.assertEqual(1, 2)", info.traceback)

    def test_type_names(self) -> None:
        """A type's name is qualified unless the type is built in."""
        self.assertEqual(capture(OwnFailure()).type_name, f"{__name__}.OwnFailure")
        self.assertEqual(capture(KeyError("x")).type_name, "KeyError")

    def test_unspeakable(self) -> None:
        """An exception whose text cannot be had is described without it."""
        info = capture(raised(Unspeakable()))
        self.assertIn("str() of the exception raised KeyboardInterrupt", info.message)
        self.assertIn("Unspeakable", info.traceback)

    def test_unpicklable(self) -> None:
        """An exception that does not pickle is kept as text only."""
        for error in (Unpicklable("text"), ValueError(threading.Lock())):
            self.assertIsNone(capture(raised(error)).pickled)
        self.assertEqual(capture(Unpicklable("text")).message, "text")

    def test_big(self) -> None:
        """A long message and traceback are cut in the middle, and the exception is not pickled."""
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
        """The traceback of an exception with a thousand causes is bounded."""
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
        """The traceback of a group shows every member."""
        group = sys.modules["builtins"].__dict__["ExceptionGroup"]  # Python 3.10 has no such name
        text = capture(raised(group("several", [ValueError("one"), TypeError("two")]))).traceback
        for words in ("several", "ValueError: one", "TypeError: two"):
            self.assertIn(words, text)

    def test_without_traceback(self) -> None:
        """An exception that was never raised has a traceback of one line."""
        self.assertEqual(capture(ValueError("new")).traceback, "ValueError: new")

    @given(st.text(st.characters(codec=None, exclude_categories=())))
    def test_any_message(self, message: str) -> None:
        """Any text is kept as the message, lone surrogates included."""
        info = capture(ValueError(message))
        self.assertEqual(info.message, message)


class CutTest(unittest.TestCase):
    """``cut``, which shortens a text in its middle."""

    @given(st.text(max_size=300), st.integers(2, 100))
    def test_cut(self, text: str, limit: int) -> None:
        """Short texts stay whole; long ones keep both ends and the right number of missing characters."""
        short = cut(text, limit)
        if len(text) <= limit:
            self.assertEqual(short, text)
            return
        keep = limit // 2
        self.assertTrue(short.startswith(text[:keep]) and short.endswith(text[-keep:]))
        self.assertIn(f"[... {len(text) - 2 * keep} characters left out ...]", short)


if __name__ == "__main__":
    unittest.main()
