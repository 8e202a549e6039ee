"""Cases that raise exceptions which are hard to send to another process."""

from __future__ import annotations

import sys
import threading
from typing import Any, NoReturn

from suites.selftest.faults.base import FaultyCase

LONG = 5_000_000


class Unspeakable(Exception):
    """An exception whose text cannot be had, because ``str()`` and ``repr()`` of it raise."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class ExitsInStr(Exception):
    """An exception whose ``str()`` raises SystemExit."""

    def __str__(self) -> str:
        raise SystemExit(0)


class Unpicklable(Exception):
    """An exception that does not pickle, because it holds a lock."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


class HostilePickle(Exception):
    """An exception that raises SystemExit in the process that unpickles it."""

    def __reduce__(self) -> Any:
        return (_refuse, ())


class TwoArguments(Exception):
    """An exception that pickles but does not unpickle, which is a common mistake."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first}-{second}")


def _refuse() -> NoReturn:
    raise SystemExit("unpickled a stranger's exception")


class Raises(FaultyCase):
    """Rank 1 raises the exception that the method's name says."""

    def raise_(self, error: BaseException) -> None:
        """Raises ``error``, in rank 1 only."""
        if self.rank == 1:
            raise error

    def test_unspeakable(self) -> None:
        """Rank 1 raises an exception whose ``str()`` raises."""
        self.raise_(Unspeakable())

    def test_exits_in_str(self) -> None:
        """Rank 1 raises an exception whose ``str()`` raises SystemExit."""
        self.raise_(ExitsInStr())

    def test_unpicklable(self) -> None:
        """Rank 1 raises an exception that holds a lock."""
        self.raise_(Unpicklable("holds a lock"))

    def test_hostile_pickle(self) -> None:
        """Rank 1 raises an exception that would end the process that unpickles it."""
        self.raise_(HostilePickle("a stranger"))

    def test_two_arguments(self) -> None:
        """Rank 1 raises an exception that does not unpickle."""
        self.raise_(TwoArguments("one", "two"))

    def test_of_a_local_class(self) -> None:
        """Rank 1 raises an exception whose class cannot be imported anywhere."""

        class Local(Exception):
            pass

        self.raise_(Local("nobody knows my class"))

    def test_long(self) -> None:
        """Rank 1 raises an exception with five million characters of text."""
        self.raise_(RuntimeError("beginning " + "x" * LONG + " end"))

    def test_long_assertion(self) -> None:
        """Rank 1 fails an assertion with five million characters of text."""
        if self.rank == 1:
            self.fail("beginning " + "x" * LONG + " end")

    def test_chained(self) -> None:
        """Rank 1 raises an exception with a cause that itself has a context."""
        if self.rank != 1:
            return
        try:
            try:
                raise KeyError("the first")
            except KeyError:
                raise ValueError("the second")  # noqa: B904 - implicit chaining is the fault
        except ValueError as error:
            raise RuntimeError("the third") from error

    def test_grouped(self) -> None:
        """Rank 1 raises an ExceptionGroup, which exists from Python 3.11."""
        if self.rank == 1:
            group = sys.modules["builtins"].__dict__["ExceptionGroup"]  # Python 3.10 has no such name
            raise group("several", [ValueError("one of them"), group("inner", [TypeError("another")])])

    def test_recursion(self) -> None:
        """Rank 1 recurses too deep."""
        if self.rank == 1:
            self._deeper()

    def _deeper(self) -> None:
        self._deeper()

    def test_memory(self) -> None:
        """Rank 1 gets a real MemoryError, by asking for an exabyte."""
        if self.rank == 1:
            bytearray(1 << 60)

    def test_syntax(self) -> None:
        """Rank 1 raises a SyntaxError from exec."""
        if self.rank == 1:
            exec("def broken(:\n    pass")

    def test_cycle(self) -> None:
        """Rank 1 raises an exception that is its own cause through another one."""
        if self.rank == 1:
            first, second = ValueError("hen"), ValueError("egg")
            first.__cause__, second.__cause__ = second, first
            raise first

    def test_surrogates(self) -> None:
        """Rank 1 raises an exception whose text is not valid Unicode."""
        self.raise_(ValueError("half \ud800 a pair"))

    def test_stop_iteration(self) -> None:
        """Rank 1 raises StopIteration, which loops and generators would swallow."""
        self.raise_(StopIteration("enough"))

    def test_generator_exit(self) -> None:
        """Rank 1 raises GeneratorExit, which is not an ``Exception``."""
        self.raise_(GeneratorExit("out"))

    def test_without_message(self) -> None:
        """Rank 1 raises an exception without a message."""
        self.raise_(LookupError())
