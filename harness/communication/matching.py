"""Collective matching: which ranks have called the n-th collective of a group, and with which operation."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


class MismatchError(RuntimeError):
    """Ranks of a group called different collectives at the same point: the test's fault. On processes this
    hangs, or mixes up the data."""


@dataclass(slots=True)
class PendingCollective:
    """One collective of one group; ``arrived`` has the ranks that called it, by their numbers in the test."""

    operation: str
    size: int
    arrived: list[int] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every member of the group has called it."""
        return len(self.arrived) >= self.size


class CollectiveMatcher:
    """All collectives that some members have called and others have not. Safe to use from any thread."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], PendingCollective] = {}
        self._changed = threading.Condition()
        self._over = False

    def arrive(self, rank: int, group: str, number: int, operation: str, size: int) -> PendingCollective:
        """A rank calls the group's ``number``-th collective.

        MismatchError where another rank called another operation there.
        """
        with self._changed:
            pending = self._pending.setdefault((group, number), PendingCollective(operation, size))
            if pending.operation != operation:
                others = ", ".join(map(str, sorted(pending.arrived)))
                raise MismatchError(
                    f"collectives differ at #{number} of group {group}: {operation} on rank {rank}, "
                    f"{pending.operation} on rank{'s' if len(pending.arrived) > 1 else ''} {others}"
                )
            pending.arrived.append(rank)
            if pending.complete:
                del self._pending[group, number]
                self._changed.notify_all()
            return pending

    def wait(self, pending: PendingCollective) -> None:
        """Returns when the collective is complete, or when the test is over."""
        with self._changed:
            self._changed.wait_for(lambda: pending.complete or self._over)

    def end(self) -> None:
        """Says that the test is over: nobody waits here any longer."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
