"""Fault table: whatever a rank raises is told, with its type, such text as it has, and its line."""

from __future__ import annotations

import sys
import unittest

from harness import Status
from suites.selftest.faults import exceptions
from suites.selftest.faults.rows import OnForkServer, OnSpawn, Played, Rows

# Characters that a verdict may have at most, whatever the exception: what a person scrolls through.
LONGEST_TEXT = 200_000


class ExceptionRows(Rows):
    """Rank 1 raises, rank 0 passes."""

    def raises(self, method: str, *said: str) -> Played:
        """A row that is an ERROR by rank 1's exception, on its line."""
        played = self.play(exceptions.Raises, method)
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised", "exceptions.py", method, *said)
        self.assertLess(len(played.text), LONGEST_TEXT)
        self.assertEqual(played.rank(0).status, Status.PASSED)
        return played

    def test_unspeakable(self) -> None:
        """Its type, and that it has no text."""
        self.raises(
            "test_unspeakable", "exceptions.Unspeakable", "str() of the exception raised RuntimeError"
        )

    def test_exits_in_str(self) -> None:
        """Its type; the rank goes on to report it."""
        self.raises("test_exits_in_str", "exceptions.ExitsInStr")

    def test_unpicklable(self) -> None:
        """Text instead of the object."""
        self.raises("test_unpicklable", "Unpicklable: holds a lock")

    def test_hostile_pickle(self) -> None:
        """Nobody in the parent unpickles it to no purpose."""
        self.raises("test_hostile_pickle", "HostilePickle: a stranger")

    def test_two_arguments(self) -> None:
        """Text instead of the object."""
        self.raises("test_two_arguments", "TwoArguments: one-two")

    def test_of_a_local_class(self) -> None:
        """Text instead of the object."""
        self.raises("test_of_a_local_class", "Local: nobody knows my class")

    def test_long(self) -> None:
        """The beginning and the end, and how much is left out."""
        self.raises("test_long", "RuntimeError: beginning", "x end", "characters left out")

    def test_long_assertion(self) -> None:
        """The same as a failure."""
        played = self.play(exceptions.Raises, "test_long_assertion")
        self.check(played, "FAIL", Status.FAILED, "AssertionError: beginning", "characters left out")
        self.assertLess(len(played.text), LONGEST_TEXT)

    def test_chained(self) -> None:
        """Causes and contexts too."""
        said = ("KeyError: 'the first'", "ValueError: the second", "RuntimeError: the third", "direct cause")
        self.raises("test_chained", *said)

    @unittest.skipIf(sys.version_info < (3, 11), "ExceptionGroup came with Python 3.11")
    def test_grouped(self) -> None:
        """Every member."""
        self.raises("test_grouped", "ExceptionGroup: several", "one of them", "TypeError: another")

    def test_recursion(self) -> None:
        """Shown as Python does, repeats folded."""
        self.raises("test_recursion", "RecursionError", "in _deeper")

    def test_memory(self) -> None:
        """An exception like any other."""
        self.raises("test_memory", "MemoryError", "bytearray(1 << 60)")

    def test_syntax(self) -> None:
        """With the line of the text that was executed."""
        self.raises("test_syntax", "SyntaxError", "def broken(:")

    def test_cycle(self) -> None:
        """Told once, and the rank does not hang."""
        self.raises("test_cycle", "ValueError: hen")

    def test_surrogates(self) -> None:
        """Escaped where it cannot be encoded, and it can be printed."""
        played = self.raises("test_surrogates", "ValueError: half")
        played.text.encode("utf-8", "backslashreplace")

    def test_stop_iteration(self) -> None:
        """No loop of the harness's takes it for its own."""
        self.raises("test_stop_iteration", "StopIteration: enough")

    def test_generator_exit(self) -> None:
        """Nor this."""
        self.raises("test_generator_exit", "GeneratorExit: out")

    def test_without_message(self) -> None:
        """Just the type."""
        self.raises("test_without_message", "rank 1 raised: LookupError")


class ExceptionsOnForkServer(ExceptionRows, OnForkServer):
    """On the fork server."""


class ExceptionsOnSpawn(ExceptionRows, OnSpawn):
    """On new interpreters."""


if __name__ == "__main__":
    unittest.main()
