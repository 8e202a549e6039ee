"""Whether an idle slot takes tests back from a busy worker, and how many, by what a run has seen.

Tests of one class or module stay in one worker, so that their fixtures are set up once and what the first of
them warms up is warm, until splitting pays: until the whole would end sooner by more than ``GAIN_S``, and by
more than a second worker spends on doing the same again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.messages import Item
from harness.runner.scheduling.queue import Queue
from harness.runner.scheduling.timings import BLIND_S, Timings
from harness.runner.scheduling.unit import Unit
from harness.runner.worker_process.warm_up import may_warm_up, warm_up_key
from harness.runner.workers.worker_state import Worker
from harness.runner.workers.workers import Workers

# Seconds that a split has to win at least: estimates are not better, and a fork of a worker costs some of it.
GAIN_S = 0.2
# Seconds that another worker takes to begin.
START_S = 0.1
# Seconds for which a test of unknown time may be warming its worker up, as by a first compile, which takes
# three where the machine is idle. How long it has taken then tells nothing about the tests after it.
WARM_UP_S = 10.0
# Seconds between two looks while a slot is idle and a worker has tests that it has not begun.
LOOK_S = 0.2
# A test that is over its time is expected to need this part of what it has taken so far.
OVERDUE = 0.5


@dataclass(slots=True)
class Mean:
    """The mean of some seconds."""

    count: int = 0
    total_s: float = 0.0

    def add(self, seconds: float) -> None:
        """Has the mean take another number in."""
        self.count += 1
        self.total_s += seconds

    @property
    def seconds(self) -> float:
        """The mean; there must be a number."""
        return self.total_s / self.count


class Pace:
    """The expected seconds of tests and fixtures: as recorded, else as this run has seen them."""

    def __init__(self, timings: Timings, ids: Iterable[str]) -> None:
        self._recorded = timings.recorded(ids)
        self._fixtures = dict(timings.fixtures)
        self._suspects: set[str] = set()  # modules whose last test may have warmed the worker up
        self._seen: dict[str, Mean] = defaultdict(Mean)  # by class and module, of tests without recorded time

    def add(self, unit: Unit, record: TestRecord) -> None:
        """Notes how long a test and its fixtures took."""
        seconds: Mapping[str, float] = record.extra.get("fixtures_s", {})
        self._fixtures.update(seconds)
        if record.status is Status.SKIPPED:
            return
        if may_warm_up(record):
            self._suspects.add(unit.module)
            return
        self._suspects.discard(unit.module)
        if unit.id not in self._recorded:
            for name in (unit.class_id, unit.module):
                self._seen[name].add(record.duration_s)

    def seconds(self, unit: Unit, at_least: float = 0.0) -> float:
        """What a test should take; of one without recorded time ``at_least`` so much."""
        if unit.id in self._recorded:
            return self._recorded[unit.id]
        seen = self._seen.get(unit.class_id) or self._seen.get(unit.module)
        return max(at_least, seen.seconds if seen is not None else BLIND_S)

    def fixtures_s(self, unit: Unit) -> float | None:
        """What another worker spends on a test's fixtures and warm-up; None where one is not known yet."""
        if any(key not in self._fixtures for key in unit.fixtures):
            return None
        warm_up_s = self._fixtures.get(warm_up_key(unit.module), 0.0)
        return warm_up_s + sum(self._fixtures[key] for key in unit.fixtures)

    def tells(self, unit: Unit, taken_s: float) -> bool:
        """Whether the times of tests like this one, which has run for so long, can be estimated.

        Not while no test of its module, or only one that may have warmed the worker up, has ended, nor while
        it takes longer than others did.
        """
        if unit.id in self._recorded or taken_s >= WARM_UP_S:
            return True
        told = unit.module in self._seen and unit.module not in self._suspects
        return told and taken_s <= self.seconds(unit)

    def left_s(self, current: Unit | None, taken_s: float, left: Sequence[Unit]) -> list[float]:
        """What a worker's running test still needs, then what each test that it has not begun should take.

        Where the running test has no recorded time and is over what was expected, so are others of its class.
        """
        expected = self.seconds(current) if current is not None else 0.0
        over = taken_s if taken_s > expected and current is not None else 0.0
        now = taken_s * OVERDUE if over else expected - taken_s
        same = current.class_id if current is not None else None
        rest = (self.seconds(unit, over if unit.class_id == same else 0.0) for unit in left)
        return [max(0.0, now), *rest]


class WorkSharing:
    """Looks for tests that idle slots could take from busy workers.

    ``pace`` is told of every record. ``next_look_s`` is when to look again on the monotonic clock: infinity
    where no slot is idle, or nothing can be taken.
    """

    def __init__(self, units: Mapping[str, Unit], timings: Timings) -> None:
        self._units = units
        self.pace = Pace(timings, units)
        self.next_look_s = float("inf")

    def take_back(self, workers: Workers, queue: Queue, now_s: float) -> Iterator[list[Item]]:
        """Takes items back from a worker after the other where that pays.

        The caller starts what it is given before it asks for more, as that leaves fewer slots idle.
        """
        if self.next_look_s != float("inf") and now_s < self.next_look_s:
            return
        self.next_look_s = float("inf")
        for worker in workers.all:
            units = [self._units[item.id] for item in worker.waiting]
            if not units or units[0].shares or not queue.has_room(units[-1].demand):
                continue
            self.next_look_s = now_s + LOOK_S
            taken = worker.take_back(self._number(worker, units, now_s))
            if taken:
                yield taken

    def _number(self, worker: Worker, units: Sequence[Unit], now_s: float) -> int:
        """How many of a worker's waiting tests another one should take."""
        fixtures_s = self.pace.fixtures_s(units[-1])
        if fixtures_s is None:  # the first test that sets them up has not ended
            return 0
        current = self._units[worker.current.id] if worker.current is not None else None
        taken_s = now_s - worker.began_s if current is not None else 0.0
        if not self.pace.tells(current or units[0], taken_s):
            return 0
        running_s, *left = self.pace.left_s(current, taken_s, units)
        return number_to_take(running_s, left, START_S + fixtures_s)


def number_to_take(running_s: float, left: Sequence[float], again_s: float) -> int:
    """How many tests, from the end of ``left``, another worker should take; 0 where splitting does not pay.

    ``running_s`` is what the running test still needs, ``again_s`` what the other worker spends on what this
    one has done already, as on fixtures. That may not be more than what is won.
    """
    whole = running_s + sum(left)
    best, best_s, theirs, ours = 0, whole - max(GAIN_S, again_s), again_s, whole
    for number, seconds in enumerate(reversed(left), 1):
        theirs, ours = theirs + seconds, ours - seconds
        if max(theirs, ours) < best_s:
            best, best_s = number, max(theirs, ours)
    return best
