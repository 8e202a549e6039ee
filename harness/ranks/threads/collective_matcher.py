"""Raises an error where ranks that are threads call different operations as a group's n-th collective."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field


class MismatchError(RuntimeError):
    """Ranks of a group called different operations as their n-th collective, which is an error of the test.

    With ranks that are processes this hangs or mixes up the data.
    """


@dataclass(slots=True)
class PendingCollective:
    """One collective of one group; ``arrived`` lists the ranks that have called it, by their global rank."""

    operation: str
    size: int
    arrived: list[int] = field(default_factory=list)

    @property
    def complete(self) -> bool:
        """Whether every member of the group has called it."""
        return len(self.arrived) >= self.size


class CollectiveMatcher:
    """The collectives that some members of a group have called and others have not; thread-safe."""

    def __init__(self) -> None:
        self._pending: dict[tuple[str, int], PendingCollective] = {}
        self._changed = threading.Condition()
        self._over = False

    def arrive(self, rank: int, group: str, number: int, operation: str, size: int) -> PendingCollective:
        """Records that a rank calls the group's ``number``-th collective.

        MismatchError where another rank called another operation as that one.
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
        """Marks the test as over, which ends every ``wait``."""
        with self._changed:
            self._over = True
            self._changed.notify_all()
