"""Which attempts a run owes: repeats, reruns of what failed, and what a run before has already done."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from harness.outcomes import Status
from harness.record import TestRecord


@dataclass(frozen=True, slots=True)
class Policy:
    """What the user asked for beyond one run of each test. ``repeats`` 0 means without end."""

    repeats: int = 1
    reruns: int = 0
    failfast: bool = False


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at one repeat of a test, both counted from 1."""

    id: str
    repeat: int = 1
    attempt: int = 1


def finished(record: TestRecord, reruns: int) -> bool:
    """True where nothing more is owed after this attempt. One that was cut short by the end of the run does
    not count at all."""
    if record.status is Status.ENDED:
        return False
    return record.ok or record.attempt > reruns


class Plan:
    """The state of a run: what is done and what comes next. Decides, and touches nothing.

    ``failed`` counts the tests that have failed since, not those of the run that this one goes on with.
    The tests are repeated as a whole, round after round: each gets its turn before one gets its second.
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
        self.failed = 0  # what failed before has stopped the run that it failed in

    def next_round(self) -> tuple[Attempt, ...]:
        """The attempts that the next round starts with; empty where the run is over.

        A round that a run before has finished is passed over.
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
        """How many first attempts are still to be made in all rounds, without end counted as one round."""
        rounds = self.policy.repeats or 1
        return max(0, len(self._ids) * rounds - len(self._done))

    def owes(self, test_id: str) -> bool:
        """True where the test has not finished in each round."""
        rounds = range(1, self.policy.repeats + 1)
        return not rounds or any((test_id, number) not in self._done for number in rounds)

    def take(self, record: TestRecord) -> TestRecord:
        """Notes an attempt; the record comes back marked flaky where it passed after a failure."""
        key = (record.id, record.repeat)
        if record.status is Status.ENDED:
            return record
        self._attempts[key] = max(record.attempt, self._attempts.get(key, 0))
        if finished(record, self.policy.reruns):
            self._done.add(key)
            self.failed += not record.ok
        if not record.ok:
            self._failed_before.add(key)
        elif key in self._failed_before and record.status is Status.PASSED:
            return replace(record, flaky=True)
        return record

    def rerun(self, record: TestRecord) -> Attempt | None:
        """The attempt that a record which was taken asks for."""
        if finished(record, self.policy.reruns) or record.status is Status.ENDED:
            return None
        return Attempt(record.id, record.repeat, record.attempt + 1)

    @property
    def stop(self) -> bool:
        """True where no further test is to begin: something failed and the user wants that to end the run."""
        return self.policy.failfast and self.failed > 0
