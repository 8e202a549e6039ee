"""Tracks how far a run has come: what is running, what is done, and the estimate of the remaining time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.base import RunInfo, TestStarted

# The plan (as many tests at once as there are jobs, each in its expected time) has the weight of so many
# seconds of observation: it steadies the estimate at the start of a run.
_PLAN_WEIGHT_S = 5.0
# The expected time of a test in a run of which no test's time is known yet.
_UNKNOWN_TEST_S = 0.1
# A test that is over its time is expected to need this part of what it has taken, so that no estimate is
# "0:00 left" while it goes on.
_OVERDUE = 0.5


@dataclass(frozen=True, slots=True)
class Counts:
    """The numbers of tests by the status of their last attempt, and of all tests that are due."""

    done: int
    passed: int
    failed: int
    skipped: int
    total: int


class Progress:
    """Follows a run by the events that a reporter gets. It reads no clock and prints nothing."""

    def __init__(self, info: RunInfo) -> None:
        self._info = info
        self._running: dict[tuple[str, str], TestStarted] = {}
        self._last: dict[tuple[str, int], Status] = {}
        self._statuses: Counter[Status] = Counter()
        self._known_left, self._known_left_s = _known(info)
        self._unknown_left = max(0, info.total - self._known_left)
        self._done_s = 0.0
        self._unknown_done = 0
        self._unknown_done_s = 0.0

    def started(self, event: TestStarted) -> None:
        """An attempt began."""
        self._running[event.worker, event.id] = event

    def finished(self, record: TestRecord) -> None:
        """An attempt ended."""
        self._running.pop((record.worker, record.id), None)
        self._count(record)
        if record.attempt > 1:
            return
        expected = self._info.expected_s.get(record.id)
        if expected is None:
            self._unknown_left = max(0, self._unknown_left - 1)
            self._unknown_done += 1
            self._unknown_done_s += record.duration_s
            self._done_s += record.duration_s
        elif self._known_left:
            self._known_left -= 1
            self._known_left_s -= expected
            self._done_s += expected

    def _count(self, record: TestRecord) -> None:
        key = (record.id, record.repeat)
        before = self._last.get(key)
        if before is not None:
            self._statuses[before] -= 1
        self._last[key] = record.status
        self._statuses[record.status] += 1

    @property
    def running(self) -> tuple[TestStarted, ...]:
        """The running attempts, the one that began first comes first."""
        return tuple(sorted(self._running.values(), key=lambda e: (e.started_s, e.id)))

    @property
    def counts(self) -> Counts:
        """The numbers of tests that passed, failed and were skipped so far."""
        passed = self._statuses[Status.PASSED] + self._statuses[Status.XFAILED]
        skipped = self._statuses[Status.SKIPPED]
        done = len(self._last)
        return Counts(done, passed, done - passed - skipped, skipped, max(done, self._info.total))

    def left_s(self, now_s: float) -> float:
        """The estimate of the seconds until the run's end.

        It is the expected time of the remaining tests, divided by the speed so far: expected seconds that
        were done in each second of the run. The speed accounts for the number of jobs, for their competition
        for cores and for a machine that is slower than the one that the expected times come from. The
        estimate is never below what a running test still needs; one that is over its time may need half as
        long again as it has taken.
        """
        elapsed = max(0.0, now_s - self._info.started_s)
        unknown_mean = self._unknown_mean(now_s)
        known = self._info.expected_s
        under_way = [(e, known.get(e.id, unknown_mean)) for e in self._running.values()]
        credit = sum(min(now_s - e.started_s, expected) for e, expected in under_way)
        work = max(0.0, self._known_left_s) + self._unknown_left * unknown_mean - credit
        speed = (self._done_s + credit + self._info.jobs * _PLAN_WEIGHT_S) / (elapsed + _PLAN_WEIGHT_S)
        longest = max((_rest_s(expected, now_s - e.started_s) for e, expected in under_way), default=0.0)
        return max(0.0, longest, work / speed if speed > 0 else 0.0)

    def _unknown_mean(self, now_s: float) -> float:
        """The expected time of a test without one: the mean of such tests so far, else of the known tests.

        Running ones count once they make the mean larger.
        """
        expected = self._info.expected_s
        running = [now_s - e.started_s for e in self._running.values() if e.id not in expected]
        if self._unknown_done:
            before = self._unknown_done_s / self._unknown_done
        else:
            before = sum(expected.values()) / len(expected) if expected else _UNKNOWN_TEST_S
        tests = self._unknown_done + len(running)
        return max(before, (self._unknown_done_s + sum(running)) / tests if tests else 0.0)


def _rest_s(expected_s: float, taken_s: float) -> float:
    """What a running test still needs."""
    return expected_s - taken_s if taken_s < expected_s else taken_s * _OVERDUE


def _known(info: RunInfo) -> tuple[int, float]:
    """The number of due attempts at tests with an expected time, and the sum of their expected seconds."""
    repeats = max(1, info.repeats)
    whole = len(info.expected_s) * repeats
    due = min(whole, info.total)  # fewer where an interrupted run is resumed
    return due, sum(info.expected_s.values()) * repeats * (due / whole if whole else 0.0)
