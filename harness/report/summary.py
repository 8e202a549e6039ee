"""``Summary``: the counts and lists of a whole run, computed from its records, that every reporter reads."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.bazel_command import is_bazel
from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.races import under

# Up to so many ids, a command line stays readable and below every system's limit.
MAX_RERUN_IDS = 40


@dataclass(frozen=True, slots=True)
class Attempts:
    """All attempts at one repeat of one test, in the order in which they were made."""

    records: tuple[TestRecord, ...]

    @property
    def id(self) -> str:
        """The test's id."""
        return self.records[0].id

    @property
    def last(self) -> TestRecord:
        """The last attempt, whose status is the test's verdict."""
        return self.records[-1]

    @property
    def failed(self) -> tuple[TestRecord, ...]:
        """The attempts that did not pass."""
        return tuple(r for r in self.records if not r.ok)

    @property
    def flaky(self) -> bool:
        """Whether an attempt failed and the last one did not."""
        return self.last.ok and (self.last.flaky or bool(self.failed))

    @property
    def ok(self) -> bool:
        """Whether the last attempt counts as not failed."""
        return self.last.ok

    @property
    def duration_s(self) -> float:
        """The sum of the attempts' durations, in seconds."""
        return sum(r.duration_s for r in self.records)


@dataclass(frozen=True)
class Summary:
    """A whole run. ``records`` are all attempts in the order in which they finished.

    ``not_run`` are the ids that were selected but never finished; ``messages`` are notices of the harness
    itself; ``rerun_command`` runs exactly the failed tests, None where none failed.
    """

    records: tuple[TestRecord, ...]
    exit_code: int = 0
    interrupted: bool = False
    duration_s: float = 0.0
    not_run: tuple[str, ...] = ()
    rerun_command: str | None = None
    messages: tuple[str, ...] = ()

    @cached_property
    def tests(self) -> tuple[Attempts, ...]:
        """One entry for each repeat of a test, in the order in which their last attempts finished."""
        found: dict[tuple[str, int], list[TestRecord]] = {}
        for record in self.records:
            same = found.pop((record.id, record.repeat), [])
            found[record.id, record.repeat] = [*same, record]
        return tuple(Attempts(tuple(sorted(a, key=lambda r: r.attempt))) for a in found.values())

    @cached_property
    def counts(self) -> Mapping[Status, int]:
        """The number of tests for each status, by their last attempts."""
        return Counter(t.last.status for t in self.tests)

    @property
    def passed(self) -> int:
        """The number of tests that passed, with flaky ones and expected failures."""
        return self.counts.get(Status.PASSED, 0) + self.counts.get(Status.XFAILED, 0)

    @property
    def skipped(self) -> int:
        """The number of tests that were skipped."""
        return self.counts.get(Status.SKIPPED, 0)

    @property
    def failed(self) -> int:
        """The number of tests that neither passed nor were skipped."""
        return len(self.tests) - self.passed - self.skipped

    @cached_property
    def flaky(self) -> tuple[Attempts, ...]:
        """Tests that failed and then passed."""
        return tuple(t for t in self.tests if t.flaky)

    @cached_property
    def failures(self) -> tuple[Attempts, ...]:
        """Tests that did not pass in the end."""
        return tuple(t for t in self.tests if not t.ok)

    @cached_property
    def quarantined(self) -> tuple[Attempts, ...]:
        """Tests whose failure does not count, because a configuration file has them in quarantine."""
        return tuple(t for t in self.tests if "quarantine" in t.last.extra)

    @property
    def failed_ids(self) -> tuple[str, ...]:
        """Ids of failed tests, each once, in order. Tests that an interrupt ended do not count as failed."""
        return tuple(dict.fromkeys(t.id for t in self.failures if t.last.status is not Status.ENDED))

    def slowest(self, number: int) -> tuple[Attempts, ...]:
        """The ``number`` tests that took longest, longest first, without skipped ones."""
        ran = [t for t in self.tests if t.last.status is not Status.SKIPPED]
        return tuple(sorted(ran, key=lambda t: (-t.duration_s, t.id))[:number])

    @cached_property
    def skips(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """(reason, ids) of skipped tests, the most frequent reason first."""
        reasons: dict[str, list[str]] = defaultdict(list)
        for test in self.tests:
            if test.last.status is Status.SKIPPED:
                reasons[test.last.reason or "no reason given"].append(test.id)
        return tuple(
            sorted(((r, tuple(ids)) for r, ids in reasons.items()), key=lambda i: (-len(i[1]), i[0]))
        )

    @cached_property
    def warnings(self) -> tuple[tuple[str, tuple[str, ...]], ...]:
        """(line, ids) of the warnings of tests, the most frequent first."""
        found: dict[str, dict[str, None]] = defaultdict(dict)
        for test in self.tests:
            for line in (line for record in test.records for line in record.warnings):
                found[line][test.id] = None
        return tuple(
            sorted(((line, tuple(ids)) for line, ids in found.items()), key=lambda i: (-len(i[1]), i[0]))
        )

    @property
    def line(self) -> str:
        """The last line of every run, for people and scripts: ``3 passed, 1 failed, 2 skipped``.

        The three counts are always there and add up to all tests.
        """
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    @property
    def asides(self) -> str:
        """The other counts that are not zero: ``1 flaky, 2 failed as expected, 5 not run``; "" for none."""
        numbers = {
            "flaky": len(self.flaky),
            "crashed": self.counts.get(Status.CRASHED, 0),
            "deadlocked": self.counts.get(Status.DEADLOCKED, 0),
            "timed out": self.counts.get(Status.TIMED_OUT, 0),
            "failed in quarantine": len(self.quarantined),
            "failed as expected": self.counts.get(Status.XFAILED, 0) - len(self.quarantined),
            "passed unexpectedly": self.counts.get(Status.XPASSED, 0),
            "ended before their verdict": self.counts.get(Status.ENDED, 0),
            "not run": len(self.not_run),
        }
        return ", ".join(f"{n} {what}" for what, n in numbers.items() if n)


def summarise(
    records: Iterable[TestRecord],
    *,
    exit_code: int = 0,
    interrupted: bool = False,
    duration_s: float = 0.0,
    selected: Sequence[str] = (),
    command: str = "python run_tests.py",
    names: Mapping[str, str] | None = None,
    messages: Sequence[str] = (),
) -> Summary:
    """The summary of a run from all its records.

    ``selected`` are the ids that should have run. ``command`` is what a user types to start the runner, with
    the options that a rerun needs (a seed, ``--slow``). ``names`` is as in ``RunInfo``.
    """
    everything = tuple(records)
    done = {r.id for r in everything}
    names = names or {}
    summary = Summary(everything)
    return Summary(
        everything,
        exit_code,
        interrupted,
        duration_s,
        tuple(test_id for test_id in selected if test_id not in done),
        rerun_command(
            _as_it_failed(command, summary), [names.get(test_id, test_id) for test_id in summary.failed_ids]
        ),
        tuple(messages),
    )


def rerun_command(command: str, names: Sequence[str]) -> str | None:
    """The one command that runs exactly these failed tests; None where there are none.

    With more than ``MAX_RERUN_IDS`` names it uses ``--last-failed``, which reads them from the last run.
    Bazel's, which takes one name and has nothing of the last run, runs all tests where several failed.
    """
    if not names:
        return None
    if len(names) > 1 and is_bazel(command):
        return command
    if len(names) > MAX_RERUN_IDS:
        return f"{command} --last-failed"
    return " ".join([command, *(shlex.quote(name) for name in names)])


def _as_it_failed(command: str, summary: Summary) -> str:
    """The command of the run, with the delays of the first test that failed."""
    return next((under(command, test.last) for test in summary.failures), command)
