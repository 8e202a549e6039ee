"""``Schedule`` decides which waiting batch starts now, within the capacity of the machine (``Capacity``).

    add(batches) -> waiting --start(now_s)--> running --done(key)--> gone

The policy is that of batch systems. Batches that need many slots come first, because they have to wait until
several slots are idle at once; of equal width, the longest comes first. Batches that need the whole machine
come last, one after the other, so that the machine has to become idle only once. The first batch that does
not fit gets a reservation (EASY backfill, Lifka 1995): others pass it only if they are expected to end before
it can start, or leave free what it needs. Estimates can be wrong, so once the reserved time is over, nothing
more starts before that batch: at worst it waits until the batches that run then have ended.

A schedule is a value without effects. The session starts the workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from operator import sub
from typing import Protocol

from harness.runner.scheduling.batching import Batch
from harness.runner.scheduling.unit import Demand

# Amounts of slots, accelerators, megabytes of memory, ranks, and tests of each group.
Amounts = tuple[float, ...]
UNLIMITED = float("inf")


@dataclass(frozen=True, slots=True)
class Place:
    """A host on which a batch can run ("" is this one), and what it takes there of all amounts.

    ``column`` is where in the amounts that host's slots are.
    """

    host: str
    need: Amounts
    column: int = 0


class Offer(Protocol):
    """What a schedule shares out: the ``Capacity`` of a machine, or that of several hosts."""

    @property
    def slots(self) -> int:
        """The number of slots."""

    @property
    def slot_columns(self) -> tuple[int, ...]:
        """Where in ``amounts`` the slots are."""

    @property
    def amounts(self) -> Amounts:
        """All there is, as a vector."""

    def alone(self, demand: Demand) -> bool:
        """Whether a batch must run alone."""

    def width(self, demand: Demand) -> float:
        """How many slots a batch takes."""

    def places(self, demand: Demand) -> Sequence[Place]:
        """Where a batch can run, and what it takes there."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What the machine offers to tests. ``slots`` is ``--jobs``; None for memory or ranks means no limit.

    ``groups`` are the groups of a configuration file with the largest number of their tests at once.
    """

    slots: int
    accelerators: int = 0
    memory_mb: int | None = None
    ranks: int | None = None
    groups: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        if self.slots < 1:
            raise ValueError(f"{self.slots} slots; write 1 or more")

    @property
    def amounts(self) -> Amounts:
        """The capacity as a vector."""
        memory = UNLIMITED if self.memory_mb is None else self.memory_mb
        ranks = UNLIMITED if self.ranks is None else self.ranks
        return (self.slots, self.accelerators, memory, ranks, *(limit for _, limit in self.groups))

    @property
    def slot_columns(self) -> tuple[int, ...]:
        """Where in ``amounts`` the slots are."""
        return (0,)

    def places(self, demand: Demand) -> Sequence[Place]:
        """Where a batch can run, and what it takes there: here."""
        return (Place("", self.need(demand)),)

    def width(self, demand: Demand) -> float:
        """How many slots a batch takes."""
        return self.need(demand)[0]

    def alone(self, demand: Demand) -> bool:
        """True where the batch must run alone: it is exclusive, or needs more than the machine has.

        A lack of accelerators does not count: the test will skip, or run on those that there are.
        """
        slots, _, memory, ranks = self.amounts[:4]
        too_big = demand.cpu_slots > slots or demand.memory_mb > memory or demand.ranks > ranks
        return demand.exclusive or too_big

    def need(self, demand: Demand) -> Amounts:
        """The amounts that the demand takes here, never more than the machine has.

        Every demand takes at least one slot, so a demand that takes all slots runs alone.
        """
        slots, accelerators, memory, ranks = self.amounts[:4]
        return (
            slots if self.alone(demand) else demand.cpu_slots,
            min(demand.accelerators, accelerators),
            min(demand.memory_mb, memory),
            min(demand.ranks, ranks),
            *(int(name == demand.group) for name, _ in self.groups),
        )


@dataclass(frozen=True, slots=True)
class Running:
    """A running batch, the amounts that it takes, and its expected end (seconds on the caller's clock).

    ``host`` is as in ``Place``.
    """

    batch: Batch
    need: Amounts
    ends_s: float
    host: str = ""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The waiting batches, in the order in which they should start, and the running ones.

    ``due_s`` is the time for which the first waiting batch has a reservation, None before it had to wait. A
    batch that goes on in another worker after its worker died stays a running batch.
    """

    capacity: Offer
    waiting: tuple[Batch, ...] = ()
    running: tuple[Running, ...] = ()
    due_s: float | None = None

    def add(self, batches: Iterable[Batch]) -> Schedule:
        """The schedule with more batches (reruns, repeats), which start after those that wait already."""
        return replace(self, waiting=self.waiting + tuple(sorted(batches, key=self._turn)))

    def again(self, batches: Iterable[Batch]) -> Schedule:
        """The schedule with batches of another schedule, in the same order, behind those that wait."""
        return replace(self, waiting=self.waiting + tuple(batches))

    def start(self, now_s: float) -> tuple[Schedule, tuple[Batch, ...]]:
        """The schedule with more batches running, and these batches, which the caller must start now.

        There is at least one where batches wait and none runs. Call this again whenever a batch is done or
        added.
        """
        running = list(self.running)
        in_turn = self._start_in_turn(running, now_s)
        if in_turn == len(self.waiting):
            return replace(self, waiting=(), running=tuple(running), due_s=None), self.waiting
        places = self.capacity.places(self.waiting[in_turn].demand)
        amounts = self.capacity.amounts
        at_s, spare = min((_reservation(p.need, running, amounts, now_s) for p in places), key=_when)
        due_s = at_s if in_turn or self.due_s is None else self.due_s
        passing = self._backfill(in_turn + 1, running, now_s, at_s, spare) if now_s <= due_s else set()
        left = tuple(b for place, b in enumerate(self.waiting) if place >= in_turn and place not in passing)
        started = tuple(entry.batch for entry in running[len(self.running) :])
        return replace(self, waiting=left, running=tuple(running), due_s=due_s), started

    def has_room(self, demand: Demand) -> bool:
        """Whether nothing waits, and a batch with this demand could start now."""
        free = _free(self.capacity.amounts, self.running)
        return not self.waiting and _roomiest(self.capacity.places(demand), free) is not None

    def host_of(self, key: int) -> str:
        """The host of a running batch, as in ``Place``."""
        return next(entry.host for entry in self.running if entry.batch.key == key)

    def done(self, key: int) -> Schedule:
        """The schedule without the running batch of this key; KeyError where no running batch has it."""
        left = tuple(r for r in self.running if r.batch.key != key)
        if len(left) == len(self.running):
            raise KeyError(key)
        return replace(self, running=left)

    def stopped(self) -> Schedule:
        """The schedule without its waiting batches (``--failfast``, an interrupt); running ones go on."""
        return replace(self, waiting=(), due_s=None)

    def _start_in_turn(self, running: list[Running], now_s: float) -> int:
        """Starts waiting batches in order as long as they fit; returns how many."""
        free = _free(self.capacity.amounts, running)
        for place, batch in enumerate(self.waiting):
            chosen = _roomiest(self.capacity.places(batch.demand), free)
            if chosen is None:
                return place
            free = _less(free, chosen.need)
            running.append(Running(batch, chosen.need, now_s + batch.expected_s, chosen.host))
        return len(self.waiting)

    def _backfill(
        self, first: int, running: list[Running], now_s: float, at_s: float, spare: Amounts
    ) -> set[int]:
        """Starts waiting batches that do not delay the reserved one, and returns their places.

        ``at_s`` is when the reserved batch can start, ``spare`` what it leaves free then.
        """
        free = _free(self.capacity.amounts, running)
        passing = set()
        for place in range(first, len(self.waiting)):
            if all(free[column] < 1 for column in self.capacity.slot_columns):
                break
            batch = self.waiting[place]
            ends_s = now_s + batch.expected_s
            places = self.capacity.places(batch.demand)
            if ends_s > at_s:
                places = [each for each in places if _fits(each.need, spare)]
            chosen = _roomiest(places, free)
            if chosen is None:
                continue
            if ends_s > at_s:
                spare = _less(spare, chosen.need)
            free = _less(free, chosen.need)
            running.append(Running(batch, chosen.need, ends_s, chosen.host))
            passing.add(place)
        return passing

    def _turn(self, batch: Batch) -> tuple[bool, float, float, int]:
        alone = self.capacity.alone(batch.demand)
        return (alone, -self.capacity.width(batch.demand), -batch.expected_s, batch.key)


def _reservation(
    head: Amounts, running: Iterable[Running], capacity: Amounts, now_s: float
) -> tuple[float, Amounts]:
    """When ``head`` can start, by the estimates, and what it leaves free. An overdue batch should end now."""
    left = sorted(((max(entry.ends_s, now_s), entry.need) for entry in running), key=lambda item: item[0])
    at_s = now_s
    for place in range(len(left) + 1):
        free = capacity
        for _, need in left[place:]:
            free = _less(free, need)
        if _fits(head, free):
            break
        at_s = left[place][0]
    return at_s, _less(free, head)


def _when(reservation: tuple[float, Amounts]) -> float:
    return reservation[0]


def _roomiest(places: Iterable[Place], free: Amounts) -> Place | None:
    """Of the places that fit the one whose host has the most free slots; None where none fits."""
    fitting = [place for place in places if _fits(place.need, free)]
    return max(fitting, key=lambda place: free[place.column], default=None)


def _free(capacity: Amounts, running: Iterable[Running]) -> Amounts:
    for entry in running:
        capacity = _less(capacity, entry.need)
    return capacity


def _less(have: Amounts, need: Amounts) -> Amounts:
    return tuple(map(sub, have, need))


def _fits(need: Amounts, free: Amounts) -> bool:
    """Whether so much is free; less than nothing is, of a host that was lost while batches ran there."""
    return all(not wanted or wanted <= there for wanted, there in zip(need, free, strict=True))
