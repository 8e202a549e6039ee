"""``assertExpectedInline`` and ``assertExpected``: compare output with text in the source or in a file.

In one process expecttest does the work. In a rank that accepts new output, the assertion notes the output for
the parent (``harness.accepted_output``).
"""

from __future__ import annotations

import os
import sys
from typing import Any

import expecttest

from harness.accepted_output import Accepted, accepting, current_outputs, write_expect_file
from harness.settings import EnvVar

__unittest = True  # For unittest, which then leaves this module's frames out of a failure's traceback.


class ExpectationTestCase(expecttest.TestCase):
    """The part of ``TestCase`` that compares output with the expected text, and accepts new text."""

    def assertExpectedInline(
        self,
        actual: Any,
        expect: str,
        skip: int = 0,
        ignore_comments: bool = False,
        ignore_empty_lines: bool = False,
    ) -> None:
        """Fails unless ``str(actual)`` is ``expect``, a triple-quoted literal in the call.

        With ``EXPECTTEST_ACCEPT=1`` the literal in the source is replaced instead; by ranks, once and only if
        they agree (``harness.accepted_output``). ``skip`` is the number of callers between the literal and
        this call. ``ignore_comments`` leaves lines that begin with # out of both texts, and
        ``ignore_empty_lines`` empty ones.
        """
        __tracebackhide__ = True
        text, literal = str(actual), expect
        if ignore_comments or ignore_empty_lines:
            text, expect = (_without(t, ignore_comments, ignore_empty_lines) for t in (text, expect))
        if not self.__note_inline(text, expect, literal, skip + 1):
            super().assertExpectedInline(text, expect, skip + 1)

    def __note_inline(self, text: str, compared: str, literal: str, skip: int) -> bool:
        """Notes the output for the parent process; False where this process decides the assertion itself."""
        notes = current_outputs()
        if notes is None or not accepting():
            return False
        filters = getattr(self, "_expect_filters", None)
        text = expecttest.replace_many(filters, text) if filters else text
        frame = sys._getframe(skip + 1)
        notes.add(
            Accepted(
                path=frame.f_code.co_filename,
                lineno=frame.f_lineno,
                test=self.id(),
                subname=None,
                old=literal,
                new=literal if text == compared else text,
            )
        )
        return True

    def assertExpected(self, actual: str, subname: str | None = None) -> None:
        """Fails unless ``actual`` is the text in ``expect/<class>.<test>[-<subname>].expect``.

        The directory is beside the test's file. With ``EXPECTTEST_ACCEPT=1`` the file is written instead.
        Several calls in one test each need a ``subname``. TypeError where ``actual`` is not a string.
        """
        __tracebackhide__ = True
        if not isinstance(actual, str):
            raise TypeError(f"assertExpected compares text, and got a {type(actual).__name__}")
        path = self.__expect_file(subname)
        old = _read_if_there(path)
        if accepting():
            self.__accept_file(path, subname, old, actual)
        elif old is None:
            self.fail(f"{path} does not exist; {EnvVar.ACCEPT}=1 makes it, with this text:\n\n{actual}")
        else:
            self.assertMultiLineEqual(old, actual, f"{EnvVar.ACCEPT}=1 accepts the new text in {path}")

    def __expect_file(self, subname: str | None) -> str:
        cls = type(self)
        source = sys.modules[cls.__module__].__file__
        assert source is not None, "a test module without a file has no place for expected outputs"
        name = self.id().removeprefix(f"{cls.__module__}.")
        directory = os.path.join(os.path.dirname(os.path.realpath(source)), "expect")
        return os.path.join(directory, f"{name}-{subname}.expect" if subname else f"{name}.expect")

    def __accept_file(self, path: str, subname: str | None, old: str | None, new: str) -> None:
        notes = current_outputs()
        if notes is not None:
            notes.add(Accepted(path, None, self.id(), subname, old, new))
        elif old != new:
            write_expect_file(path, new)


def _read_if_there(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _without(text: str, comments: bool, empty: bool) -> str:
    """``text`` without its comment lines (``comments``) and without its empty lines (``empty``)."""
    kept = (
        line
        for line in text.split("\n")
        if not (comments and line.lstrip().startswith("#")) and not (empty and not line.strip())
    )
    return "\n".join(kept)
