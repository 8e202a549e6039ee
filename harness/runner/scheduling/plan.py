"""``Plan`` decides which attempts at tests a run still has to make: repeats, reruns, what a resumed run left.

An attempt that a run still has to make is called owed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.configuration.override import Reruns
from harness.outcomes import Status
from harness.record import TestRecord


@dataclass(frozen=True, slots=True)
class Policy:
    """How often tests run, and whether a failure ends the run.

    ``repeats`` 0 means without end. ``reruns`` is the number of further attempts at a test that failed;
    ``own`` has those of tests for which a configuration file says otherwise, with the waits before them.
    """

    repeats: int = 1
    reruns: int = 0
    failfast: bool = False
    own: Mapping[str, Reruns] = field(default_factory=dict)

    def reruns_of(self, test_id: str) -> Reruns:
        """How often, and after which waits, this test runs again where it failed."""
        return self.own.get(test_id) or Reruns(self.reruns)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at one repeat of a test, both counted from 1."""

    id: str
    repeat: int = 1
    attempt: int = 1

    @property
    def suffix(self) -> str:
        """What the names of files have for this attempt: ``.repeat2.attempt3``, "" for the first."""
        repeat = f".repeat{self.repeat}" if self.repeat > 1 else ""
        return repeat + (f".attempt{self.attempt}" if self.attempt > 1 else "")


def finished(record: TestRecord, reruns: int) -> bool:
    """True where this attempt is the last one that the test needs in its round.

    An attempt that was cut short by the end of the run does not count.
    """
    if record.status is Status.ENDED:
        return False
    return record.ok or record.attempt > reruns


class Plan:
    """Keeps which attempts have been made and decides which come next. It has no effects outside.

    Tests are repeated in rounds: every test runs once before any test runs a second time. ``failed`` is the
    number of tests that have failed in this run, without those of an earlier run that it resumes.
    """

    def __init__(self, ids: Sequence[str], policy: Policy, earlier: Iterable[TestRecord] = ()) -> None:
        self.policy = policy
        self._ids = tuple(ids)
        self._wanted = frozenset(ids)
        self._attempts: dict[tuple[str, int], int] = {}  # attempts made so far
        self._failed_before: set[tuple[str, int]] = set()
        self._done: set[tuple[str, int]] = set()
        self._round = 0
        self.failed = 0
        for record in earlier:
            if record.id in self._wanted:
                self.take(record)
        self.failed = 0  # earlier failures must not stop this run

    def next_round(self) -> tuple[Attempt, ...]:
        """The first attempts of the next round; empty where the run is over.

        A round that an earlier run has finished is skipped.
        """
        while not self.policy.repeats or self._round < self.policy.repeats:
            self._round += 1
            owed = tuple(
                Attempt(test_id, self._round, self._attempts.get((test_id, self._round), 0) + 1)
                for test_id in self._ids
                if (test_id, self._round) not in self._done
            )
            if owed or not self._ids:
                return owed
        return ()

    @property
    def owed(self) -> int:
        """The number of tests that have not finished, summed over all rounds; endless rounds count as one."""
        rounds = self.policy.repeats or 1
        return max(0, len(self._ids) * rounds - len(self._done))

    def owes(self, test_id: str) -> bool:
        """True where the test has not finished in every round."""
        rounds = range(1, self.policy.repeats + 1)
        return not rounds or any((test_id, number) not in self._done for number in rounds)

    def take(self, record: TestRecord) -> TestRecord:
        """Adds an attempt, and returns its record, marked flaky where it passed after a failure."""
        key = (record.id, record.repeat)
        if record.status is Status.ENDED:
            return record
        self._attempts[key] = max(record.attempt, self._attempts.get(key, 0))
        if finished(record, self.policy.reruns_of(record.id).count):
            self._done.add(key)
            self.failed += not record.ok
        if not record.ok:
            self._failed_before.add(key)
        elif key in self._failed_before and record.status is Status.PASSED:
            return replace(record, flaky=True)
        return record

    def rerun(self, record: TestRecord) -> Attempt | None:
        """The attempt that must follow this one, which ``take`` has been given; None where there is none."""
        if finished(record, self.policy.reruns_of(record.id).count) or record.status is Status.ENDED:
            return None
        return Attempt(record.id, record.repeat, record.attempt + 1)

    @property
    def stop(self) -> bool:
        """True where a test has failed and the user wants a failure to end the run."""
        return self.policy.failfast and self.failed > 0
