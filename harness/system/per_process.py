"""``PerProcess``: a value that each process makes once for itself, and that a fork does not inherit."""

from __future__ import annotations

from collections.abc import Callable
from os import getpid  # by name, because a test may have ``os.getpid`` replaced
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Makes a value at the first request of a process, and keeps it for that process.

    A forked process starts without a value: the inherited one belongs to its parent.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # Inherited values are kept, so that their finalisers do not run in a fork.
        self._by_pid: dict[int, T] = {}

    def get(self) -> T:
        """This process's value, which the first call makes."""
        pid = getpid()
        if pid not in self._by_pid:
            self._by_pid[pid] = self._make()
        return self._by_pid[pid]

    def held(self) -> T | None:
        """This process's value if ``get`` was called before, else None."""
        return self._by_pid.get(getpid())
