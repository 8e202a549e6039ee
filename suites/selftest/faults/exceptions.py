"""Exceptions that are hard to bring to another process."""

from __future__ import annotations

import sys
import threading
from typing import Any, NoReturn

from suites.selftest.faults.base import FaultyCase

LONG = 5_000_000


class Unspeakable(Exception):
    """Its text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no words")

    __repr__ = __str__


class ExitsInStr(Exception):
    """Asking for its text ends the process, nearly."""

    def __str__(self) -> str:
        raise SystemExit(0)


class Unpicklable(Exception):
    """Holds a lock."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.lock = threading.Lock()


class HostilePickle(Exception):
    """Fails in the process that unpickles it."""

    def __reduce__(self) -> Any:
        return (_refuse, ())


class TwoArguments(Exception):
    """Pickles, and does not unpickle: a common mistake."""

    def __init__(self, first: str, second: str) -> None:
        super().__init__(f"{first}-{second}")


def _refuse() -> NoReturn:
    raise SystemExit("unpickled a stranger's exception")


class Raises(FaultyCase):
    """Rank 1 raises."""

    def raise_(self, error: BaseException) -> None:
        """In rank 1 only."""
        if self.rank == 1:
            raise error

    def test_unspeakable(self) -> None:
        """``str()`` raises."""
        self.raise_(Unspeakable())

    def test_exits_in_str(self) -> None:
        """``str()`` raises SystemExit."""
        self.raise_(ExitsInStr())

    def test_unpicklable(self) -> None:
        """Holds a lock."""
        self.raise_(Unpicklable("holds a lock"))

    def test_hostile_pickle(self) -> None:
        """Ends the process that unpickles it."""
        self.raise_(HostilePickle("a stranger"))

    def test_two_arguments(self) -> None:
        """Does not unpickle."""
        self.raise_(TwoArguments("one", "two"))

    def test_of_a_local_class(self) -> None:
        """Its class cannot be imported anywhere."""

        class Local(Exception):
            pass

        self.raise_(Local("nobody knows my class"))

    def test_long(self) -> None:
        """Five million characters."""
        self.raise_(RuntimeError("beginning " + "x" * LONG + " end"))

    def test_long_assertion(self) -> None:
        """Five million characters, in an assertion."""
        if self.rank == 1:
            self.fail("beginning " + "x" * LONG + " end")

    def test_chained(self) -> None:
        """With a cause that has a context."""
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
        """Python 3.11's ExceptionGroup."""
        if self.rank == 1:
            group = sys.modules["builtins"].__dict__["ExceptionGroup"]  # Python 3.10 has no such name
            raise group("several", [ValueError("one of them"), group("inner", [TypeError("another")])])

    def test_recursion(self) -> None:
        """Too deep."""
        if self.rank == 1:
            self._deeper()

    def _deeper(self) -> None:
        self._deeper()

    def test_memory(self) -> None:
        """A real one: nobody has an exabyte."""
        if self.rank == 1:
            bytearray(1 << 60)

    def test_syntax(self) -> None:
        """From exec."""
        if self.rank == 1:
            exec("def broken(:\n    pass")

    def test_cycle(self) -> None:
        """Its own cause."""
        if self.rank == 1:
            first, second = ValueError("hen"), ValueError("egg")
            first.__cause__, second.__cause__ = second, first
            raise first

    def test_surrogates(self) -> None:
        """Text that is no valid Unicode."""
        self.raise_(ValueError("half \ud800 a pair"))

    def test_stop_iteration(self) -> None:
        """Means something to loops and generators."""
        self.raise_(StopIteration("enough"))

    def test_generator_exit(self) -> None:
        """No Exception."""
        self.raise_(GeneratorExit("out"))

    def test_without_message(self) -> None:
        """Nothing but a type."""
        self.raise_(LookupError())
