"""The queue: the attempts that a session owes, in batches, and which of them may start now.

    add -----> waiting --start--> running --done--> gone
    rerun ---> waiting          \\--put_back--> waiting

Where a run is to stop at a failure that reruns do not take back, nothing else starts while a rerun is owed.
Nothing here has an effect outside; the session asks, starts and tells.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.runner.batching import Batch, batches
from harness.runner.plan import Attempt
from harness.runner.scheduling import Capacity, Schedule
from harness.runner.timings import Timings
from harness.runner.unit import Unit

Turn = tuple[Unit, Attempt]


class Queue:
    """What waits and what runs. A batch is known by its key from ``start`` to ``done`` or ``put_back``."""

    def __init__(self, capacity: Capacity, timings: Timings, *, isolate: bool, reruns_first: bool) -> None:
        """With ``isolate`` every test is a batch of its own; with ``reruns_first`` nothing else starts while
        a rerun is owed."""
        self._schedule = Schedule(capacity)
        self._timings, self._isolate, self._reruns_first = timings, isolate, reruns_first
        self._owed: dict[int, dict[str, Attempt]] = {}  # batch key -> attempts by id, until it starts
        self._reruns: set[int] = set()  # keys of the reruns that hold the others
        self._held: tuple[Batch, ...] = ()
        self._next_key = 0

    @property
    def holding(self) -> bool:
        """True while nothing but reruns may start."""
        return bool(self._reruns)

    def add(self, turns: Sequence[Turn]) -> None:
        """Adds attempts behind all that wait; tests of one module keep their order."""
        new = Schedule(self._schedule.capacity).add(self._batches(turns, self._isolate)).waiting
        if self.holding:
            self._held += new
        else:
            self._schedule = self._schedule.again(new)

    def rerun(self, turn: Turn) -> None:
        """Adds another attempt at a test that failed, alone: behind all that waits, or before it."""
        new = self._batches([turn], True)
        if self._reruns_first:
            if not self._reruns:
                self._held, self._schedule = self._schedule.waiting, self._schedule.stopped()
            self._reruns.update(batch.key for batch in new)
        self._schedule = self._schedule.add(new)

    def put_back(self, key: int, turns: Sequence[Turn]) -> None:
        """Ends a running batch of which these attempts are left; they come before all that is held."""
        assert self.holding
        self._held = (*self._batches(turns, self._isolate), *self._held)
        self.done(key)

    def start(self, now_s: float) -> list[tuple[int, list[Turn]]]:
        """Every batch that is to start now, with its key; some, where something waits and nothing runs."""
        if not self._schedule.waiting:
            return []
        self._schedule, started = self._schedule.start(now_s)
        return [(batch.key, self._turns(batch)) for batch in started]

    def done(self, key: int) -> None:
        """Ends a running batch."""
        self._schedule = self._schedule.done(key)
        self._reruns.discard(key)
        if self._held and not self._reruns:
            self._schedule = self._schedule.again(self._held)
            self._held = ()

    def stop(self) -> None:
        """Forgets all that waits; what runs goes on."""
        self._schedule = self._schedule.stopped()
        self._held = ()
        self._owed.clear()

    def _batches(self, turns: Sequence[Turn], isolate: bool) -> tuple[Batch, ...]:
        slots = self._schedule.capacity.slots
        attempts = {unit.id: attempt for unit, attempt in turns}
        units = [unit for unit, _ in turns]
        new = batches(units, self._timings, slots, isolate=isolate, first_key=self._next_key)
        self._next_key += len(new)
        self._owed.update((b.key, {u.id: attempts[u.id] for u in b.units}) for b in new)
        return new

    def _turns(self, batch: Batch) -> list[Turn]:
        attempts = self._owed.pop(batch.key)
        return [(unit, attempts[unit.id]) for unit in batch.units]
