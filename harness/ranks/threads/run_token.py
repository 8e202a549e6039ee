"""``RunToken``: decides which rank thread runs next, once the one that runs waits for a peer or ends.

    rank 0  acquire ======== release ....(waits in all_reduce).... acquire ====
    rank 1  .....(waits for the token) acquire ==== release .... acquire ===

Process-wide state (random generators, environment, warning filters) is switched to the rank that gets the
token, so each rank sees its own, and draws the random numbers that it would draw as a process.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import Protocol


class SwitchableState(Protocol):
    """The process-wide state that each rank has its own copy of; see ``rank_state.RankStates``."""

    def switch(self, rank: int | None) -> None:
        """Saves the current rank's state and restores that of ``rank``; None is the parent."""
        ...


class RunToken:
    """The token that lets one rank run at a time; any thread may release it for the rank that holds it."""

    def __init__(self, state: SwitchableState) -> None:
        self._state = state
        self._lock = threading.Lock()
        self._waiting: deque[tuple[int, threading.Lock]] = deque()
        self._disabled = False
        self._parents_gate: threading.Lock | None = None
        self.holder: int | None = None
        self.handovers = 0  # lets a caller that checks twice see whether the token has moved

    def acquire(self, rank: int) -> None:
        """Returns when this rank holds the token; at once where it already does, or after ``disable``."""
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
    def awaiting(self) -> tuple[int, ...]:
        """The ranks that wait for the token, the next one first."""
        with self._lock:
            return tuple(rank for rank, _ in self._waiting)

    def release(self, rank: int) -> None:
        """Gives the token up, before the rank waits or when it is done; a no-op without the token."""
        with self._lock:
            if self.holder == rank:
                self._next()

    def await_handover(self, timeout_s: float) -> None:
        """For the parent: returns when the holder has released the token, or after ``timeout_s`` seconds.

        At once where no rank holds it.
        """
        with self._lock:
            if self.holder is None:
                return
            gate = self._parents_gate = threading.Lock()
            gate.acquire()
        gate.acquire(timeout=timeout_s)

    def pass_on(self) -> bool:
        """Takes the token from a holder that has not released it and gives it to the next rank.

        Returns False where no rank holds the token or none waits for it.
        """
        with self._lock:
            if self.holder is None or not self._waiting:
                return False
            self._next()
            return True

    def disable(self) -> None:
        """Lets every rank run from now on, all at the same time."""
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
        if self._parents_gate is not None:
            self._parents_gate.release()
            self._parents_gate = None

    def _hand_to(self, rank: int) -> None:
        self._state.switch(rank)
        self.holder = rank
        self.handovers += 1
