"""``RunToken``: of the ranks that are threads of one process, only the one that holds the token runs.

    rank 0  acquire ======== release ....(waits in all_reduce).... acquire ====
    rank 1  .....(waits for the token) acquire ==== release .... acquire ===

Whatever belongs to the process (random generators, environment, warning filters) is put in place for the rank
that gets the token, so each rank sees its own, and draws the numbers that it would draw as a process.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol


class SwitchableState(Protocol):
    """What each rank has of the process's own things; see ``rank_state.RankStates``."""

    def switch(self, rank: int | None) -> None:
        """Keeps what is in place for its rank, and puts in place what ``rank`` has; None is the parent."""
        ...


class RunToken:
    """Who may run. A rank is named by its number, so any thread that works for it can release its token."""

    def __init__(self, state: SwitchableState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self._disabled = False
        self.holder: int | None = None
        self.handovers = 0  # so that somebody who looks twice can tell whether the token has moved

    def acquire(self, rank: int) -> None:
        """Returns when this rank holds the token; at once where it does already, or after ``disable``."""
        with self._lock:
            if self._disabled or self.holder == rank:
                return
            if self.holder is None:
                self._hand_to(rank)
                return
            gate = threading.Lock()
            gate.acquire()
            self._waiting.append((rank, gate))
        gate.acquire()

    @property
    def waiting(self) -> int:
        """How many ranks wait for the token."""
        return len(self._waiting)

    def release(self, rank: int) -> None:
        """The rank is about to wait for others, or is done; nothing happens where it has no token."""
        with self._lock:
            if self.holder == rank:
                self._next()

    def pass_on(self) -> bool:
        """Lets the next rank run although the holder did not say that it waits; False where none wants to."""
        with self._lock:
            if self.holder is None or not self._waiting:
                return False
            self._next()
            return True

    def disable(self) -> None:
        """Lets every rank run from now on, all at once."""
        with self._lock:
            self._disabled = True
            self.holder = None
            while self._waiting:
                self._waiting.popleft()[1].release()

    def _next(self) -> None:
        self.holder = None
        if self._waiting:
            rank, gate = self._waiting.popleft()
            self._hand_to(rank)
            gate.release()

    def _hand_to(self, rank: int) -> None:
        self._state.switch(rank)
        self.holder = rank
        self.handovers += 1
