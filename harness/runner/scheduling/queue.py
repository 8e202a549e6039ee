"""``Queue``: the attempts of a run that have not started, kept as batches: added, started, put back.

    add -----> waiting --start--> running --done--> gone
    rerun ---> waiting          \\--put_back--> waiting

A rerun may have to wait for its time. With ``--failfast`` and reruns, nothing else starts while there is one,
because it may end the run. The queue has no effects outside: the session starts the workers and calls
``done`` when they have ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from harness.runner.scheduling.batching import Batch, batches
from harness.runner.scheduling.plan import Attempt
from harness.runner.scheduling.schedule import Offer, Schedule
from harness.runner.scheduling.timings import Timings
from harness.runner.scheduling.unit import Demand, Unit

Turn = tuple[Unit, Attempt]


class Queue:
    """The batches that wait and run. ``start`` returns their keys, which ``done`` and ``put_back`` take."""

    def __init__(self, capacity: Offer, timings: Timings, *, isolate: bool, reruns_first: bool) -> None:
        """With ``isolate`` every batch has one test; with ``reruns_first`` nothing else starts while a rerun
        waits or runs."""
        self._schedule = Schedule(capacity)
        self._timings, self._isolate, self._reruns_first = timings, isolate, reruns_first
        self._owed: dict[int, dict[str, Attempt]] = {}  # batch key -> attempts by id, until it starts
        self._reruns: set[int] = set()  # keys of the reruns that must end first
        self._held: tuple[Batch, ...] = ()
        self._later: list[tuple[float, Batch]] = []  # reruns, with the time before which they do not start
        self._next_key = 0

    @property
    def holding(self) -> bool:
        """True while only reruns may start."""
        return bool(self._reruns)

    @property
    def next_due_s(self) -> float:
        """When the next rerun that waits for its time may start; infinity without one."""
        return min((due_s for due_s, _ in self._later), default=float("inf"))

    def has_room(self, demand: Demand) -> bool:
        """Whether nothing waits, and a batch with this demand could start now."""
        return not self.holding and self._schedule.has_room(demand)

    def host_of(self, key: int) -> str:
        """The host on which a batch runs; "" is the controller's."""
        return self._schedule.host_of(key)

    def offer(self, capacity: Offer) -> None:
        """From now on so much is shared out: a host has come, or was lost."""
        self._schedule = replace(self._schedule, capacity=capacity, due_s=None)

    def add(self, turns: Sequence[Turn]) -> None:
        """Adds attempts behind all waiting batches; tests of one module keep their order."""
        new = Schedule(self._schedule.capacity).add(self._batches(turns, self._isolate)).waiting
        if self.holding:
            self._held += new
        else:
            self._schedule = self._schedule.again(new)

    def rerun(self, turn: Turn, due_s: float = 0.0) -> None:
        """Adds another attempt at a failed test, in a batch of one: last or, with ``reruns_first``, first.

        It does not start before ``due_s``, on the clock of ``start``.
        """
        new = self._batches([turn], True)
        if self._reruns_first:
            if not self._reruns:
                self._held, self._schedule = self._schedule.waiting, self._schedule.stopped()
            self._reruns.update(batch.key for batch in new)
        self._later += [(due_s, batch) for batch in new]

    def put_back(self, key: int, turns: Sequence[Turn]) -> None:
        """Ends a running batch early. Its remaining attempts wait in front of all held batches."""
        assert self.holding
        self._held = (*self._batches(turns, self._isolate), *self._held)
        self.done(key)

    def start(self, now_s: float) -> list[tuple[int, list[Turn]]]:
        """Every batch that starts now, with its key; at least one where batches wait and none runs."""
        due = [batch for due_s, batch in self._later if due_s <= now_s]
        if due:
            self._later = [(due_s, batch) for due_s, batch in self._later if due_s > now_s]
            self._schedule = self._schedule.add(due)
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
        """Forgets all waiting batches; running ones go on."""
        self._schedule = self._schedule.stopped()
        self._held = ()
        self._later.clear()
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
