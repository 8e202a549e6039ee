"""Whether an idle slot takes tests back from a busy worker, and how many, by what a run has seen.

Tests of one class or module stay in one worker, so that their fixtures are set up once, until splitting pays:
until the whole would end sooner by more than ``GAIN_S``, with the fixtures set up a second time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from harness.record import TestRecord
from harness.runner.messages import Item
from harness.runner.queue import Queue
from harness.runner.timings import BLIND_S, Timings
from harness.runner.unit import Unit, split_id
from harness.runner.worker_state import Worker
from harness.runner.workers import Workers

# Seconds that a split has to win at least: estimates are not better, and a fork of a worker costs some of it.
GAIN_S = 0.2
# Seconds that another worker takes to begin.
START_S = 0.1
# Seconds between two looks while a slot is idle and a worker has tests that it has not begun.
LOOK_S = 0.2
# A test that is over its time is expected to need this part of what it has taken so far.
OVERDUE = 0.5


class Pace:
    """The expected seconds of tests and fixtures: as recorded, else as this run has seen them."""

    def __init__(self, timings: Timings, ids: Iterable[str]) -> None:
        self._recorded = timings.recorded(ids)
        self._fixtures = dict(timings.fixtures)
        self._seen: dict[str, list[float]] = defaultdict(list)  # by class, of tests without recorded time

    def add(self, record: TestRecord) -> None:
        """Notes how long a test and its fixtures took."""
        if record.id not in self._recorded:
            self._seen[split_id(record.id)[0]].append(record.duration_s)
        seconds: Mapping[str, float] = record.extra.get("fixtures_s", {})
        self._fixtures.update(seconds)

    def seconds(self, unit: Unit, at_least: float = 0.0) -> float:
        """What a test should take; of one without recorded time ``at_least`` so much."""
        if unit.id in self._recorded:
            return self._recorded[unit.id]
        seen = self._seen.get(unit.class_id)
        return max(at_least, sum(seen) / len(seen) if seen else BLIND_S)

    def fixtures_s(self, unit: Unit) -> float | None:
        """What the fixtures of a test take; None where that of one is not known yet."""
        if any(key not in self._fixtures for key in unit.fixtures):
            return None
        return sum(self._fixtures[key] for key in unit.fixtures)

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
        running_s, *left = self.pace.left_s(current, now_s - worker.began_s, units)
        return number_to_take(running_s, left, fixtures_s)


def number_to_take(running_s: float, left: Sequence[float], fixtures_s: float) -> int:
    """How many tests, from the end of ``left``, another worker should take; 0 where splitting does not pay.

    ``running_s`` is what the running test still needs. The other worker sets the fixtures up again.
    """
    whole = running_s + sum(left)
    best, best_s, theirs, ours = 0, whole - GAIN_S, START_S + fixtures_s, whole
    for number, seconds in enumerate(reversed(left), 1):
        theirs, ours = theirs + seconds, ours - seconds
        if max(theirs, ours) < best_s:
            best, best_s = number, max(theirs, ours)
    return best
