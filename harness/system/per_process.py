"""``PerProcess``: what a process has one of, and a fork of it must not use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class PerProcess(Generic[T]):
    """Makes a value when a process first asks for it, and keeps it for that process.

    A fork starts without one: what it inherits is its parent's to use and to end.
    """

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        # What was inherited stays here, so that no finaliser of it runs in a fork.
        self._by_pid: dict[int, T] = {}

    def get(self) -> T:
        """This process's value."""
        pid = os.getpid()
        if pid not in self._by_pid:
            self._by_pid[pid] = self._make()
        return self._by_pid[pid]

    def held(self) -> T | None:
        """This process's value if it has asked for one before."""
        return self._by_pid.get(os.getpid())
