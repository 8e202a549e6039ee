"""Tests that whatever a rank raises is reported with its type, its line and such text as it has."""

from __future__ import annotations

import sys
import unittest

from harness import Status
from suites.selftest.faults import exceptions
from suites.selftest.faults.rows import OnForkedInterpreters, OnForkServer, Played, Rows

# Characters that a verdict may have at most, whatever the exception: what a person still scrolls through.
LONGEST_TEXT = 200_000


class ExceptionRows(Rows):
    """Rank 1 raises, and rank 0 passes."""

    def raises(self, method: str, *said: str) -> Played:
        """Checks an ERROR by rank 1's exception, with the line that raised it."""
        played = self.play(exceptions.Raises, method)
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised", "exceptions.py", method, *said)
        self.assertLess(len(played.text), LONGEST_TEXT)
        self.assertEqual(played.rank(0).status, Status.PASSED)
        return played

    def test_unspeakable(self) -> None:
        """An exception whose str() raises is reported by its type."""
        self.raises(
            "test_unspeakable", "exceptions.Unspeakable", "str() of the exception raised RuntimeError"
        )

    def test_exits_in_str(self) -> None:
        """An exception whose str() raises SystemExit is reported by its type."""
        self.raises("test_exits_in_str", "exceptions.ExitsInStr")

    def test_unpicklable(self) -> None:
        """An exception that does not pickle is reported as text."""
        self.raises("test_unpicklable", "Unpicklable: holds a lock")

    def test_hostile_pickle(self) -> None:
        """An exception that is hostile to unpickling is reported as text."""
        self.raises("test_hostile_pickle", "HostilePickle: a stranger")

    def test_two_arguments(self) -> None:
        """An exception that does not unpickle is reported as text."""
        self.raises("test_two_arguments", "TwoArguments: one-two")

    def test_of_a_local_class(self) -> None:
        """An exception of a local class is reported as text."""
        self.raises("test_of_a_local_class", "Local: nobody knows my class")

    def test_long(self) -> None:
        """A long text is reported by its beginning, its end and the number of characters left out."""
        self.raises("test_long", "RuntimeError: beginning", "x end", "characters left out")

    def test_long_assertion(self) -> None:
        """A long text of a failed assertion is cut as well."""
        played = self.play(exceptions.Raises, "test_long_assertion")
        self.check(played, "FAIL", Status.FAILED, "AssertionError: beginning", "characters left out")
        self.assertLess(len(played.text), LONGEST_TEXT)

    def test_chained(self) -> None:
        """Causes and contexts are reported."""
        said = ("KeyError: 'the first'", "ValueError: the second", "RuntimeError: the third", "direct cause")
        self.raises("test_chained", *said)

    @unittest.skipIf(sys.version_info < (3, 11), "ExceptionGroup came with Python 3.11")
    def test_grouped(self) -> None:
        """Every member of an ExceptionGroup is reported."""
        self.raises("test_grouped", "ExceptionGroup: several", "one of them", "TypeError: another")

    def test_recursion(self) -> None:
        """A RecursionError is shown as Python shows it, with repeated frames folded."""
        self.raises("test_recursion", "RecursionError", "in _deeper")

    def test_memory(self) -> None:
        """A MemoryError is reported like any other exception."""
        self.raises("test_memory", "MemoryError", "bytearray(1 << 60)")

    def test_syntax(self) -> None:
        """A SyntaxError shows the line of the text that was executed."""
        self.raises("test_syntax", "SyntaxError", "def broken(:")

    def test_cycle(self) -> None:
        """An exception that is its own cause is reported, and the rank does not hang."""
        self.raises("test_cycle", "ValueError: hen")

    def test_surrogates(self) -> None:
        """Text that is not valid Unicode is reported and can be printed."""
        played = self.raises("test_surrogates", "ValueError: half")
        played.text.encode("utf-8", "backslashreplace")

    def test_stop_iteration(self) -> None:
        """A StopIteration is reported and ends no loop of the harness."""
        self.raises("test_stop_iteration", "StopIteration: enough")

    def test_generator_exit(self) -> None:
        """A GeneratorExit is reported."""
        self.raises("test_generator_exit", "GeneratorExit: out")

    def test_without_message(self) -> None:
        """An exception without a message is reported by its type."""
        self.raises("test_without_message", "rank 1 raised: LookupError")


class ExceptionsOnForkServer(ExceptionRows, OnForkServer):
    """Runs the tests on the fork server."""


class ExceptionsOnSpawn(ExceptionRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


if __name__ == "__main__":
    unittest.main()
