"""Collectives as meetings: which ranks came to the n-th collective of a group, and with which operation."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


class MismatchError(RuntimeError):
    """Ranks of a group called different collectives at the same point: the test's fault. On processes this
    hangs, or mixes up the data."""


@dataclass(slots=True)
class PendingCollective:
    """One collective of one group. ``came`` has the ranks, by their numbers in the whole test."""

    operation: str
    size: int
    came: list[int] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every member has come."""
        return len(self.came) >= self.size


class CollectiveMatcher:
    """All meetings that somebody has come to and that are not complete. Safe to use from any thread."""

    def __init__(self) -> None:
        self._open: dict[tuple[str, int], PendingCollective] = {}
        self._changed = threading.Condition()
        self._over = False

    def come(self, rank: int, group: str, number: int, operation: str, size: int) -> PendingCollective:
        """A rank comes to the group's ``number``-th collective. MismatchError where another rank came to it
        with another operation."""
        with self._changed:
            meeting = self._open.setdefault((group, number), PendingCollective(operation, size))
            if meeting.operation != operation:
                others = ", ".join(map(str, sorted(meeting.came)))
                raise MismatchError(
                    f"collectives differ at #{number} of group {group}: {operation} on rank {rank}, "
                    f"{meeting.operation} on rank{'s' if len(meeting.came) > 1 else ''} {others}"
                )
            meeting.came.append(rank)
            if meeting.complete:
                del self._open[group, number]
                self._changed.notify_all()
            return meeting

    def wait(self, meeting: PendingCollective) -> None:
        """Returns when the meeting is complete, or when all is over."""
        with self._changed:
            self._changed.wait_for(lambda: meeting.complete or self._over)

    def end(self) -> None:
        """Nobody waits here any longer."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
