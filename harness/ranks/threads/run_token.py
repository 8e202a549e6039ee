"""Turns: of the ranks that are threads of one process, one runs at a time, until it has to wait for others.

    rank 0  take ======== give ....(waits in all_reduce).... take ====
    rank 1  .....(waits for its turn) take ==== give .... take ===

Whatever belongs to the process (random generators, environment, warning filters) is put in place for the rank
that gets the turn, so each rank sees its own, and draws the numbers that it would draw as a process.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol


class SwitchableState(Protocol):
    """What each rank has of the process's own things; see ``thread_state.RankStates``."""

    def switch(self, rank: int | None) -> None:
        """Keeps what is in place for whom it was, and puts in place what ``rank`` has; None: the parent."""
        ...


class RunToken:
    """Who may run. A rank is named by its number, so any thread that works for it can give its turn away."""

    def __init__(self, state: SwitchableState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self._open = False
        self.holder: int | None = None
        self.changes = 0  # of the holder, so that somebody who looks twice can tell whether one happened

    def take(self, rank: int) -> None:
        """Returns when it is this rank's turn; at once where it is already, or after ``open``."""
        with self._lock:
            if self._open or self.holder == rank:
                return
            if self.holder is None:
                self._hand_to(rank)
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append((rank, gate))
        gate.acquire()

    def give(self, rank: int) -> None:
        """The rank is about to wait for others, or is done. Nothing happens where it is not its turn."""
        with self._lock:
            if self.holder == rank:
                self._next()

    def lend(self) -> bool:
        """Lets the next rank run although the holder did not say that it waits; False where none wants to."""
        with self._lock:
            if self.holder is None or not self._waiting:
                return False
            self._next()
            return True

    def open(self) -> None:
        """No more turns: everybody runs."""
        with self._lock:
            self._open = True
            self.holder = None
            while self._waiting:
                self._waiting.popleft()[1].release()

    @property
    def wanted(self) -> bool:
        """Whether a rank waits for its turn."""
        return bool(self._waiting)

    def _next(self) -> None:
        self.holder = None
        if self._waiting:
            rank, gate = self._waiting.popleft()
            self._hand_to(rank)
            gate.release()

    def _hand_to(self, rank: int) -> None:
        self._state.switch(rank)
        self.holder = rank
        self.changes += 1
