"""What a whole run came to: a pure function of its records, read by every reporter."""

from __future__ import annotations

import shlex
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.outcomes import Status
from harness.record import TestRecord

# A command line of all failed ids stays readable, and below any system's limit, up to so many.
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
        """The attempt that decides."""
        return self.records[-1]

    @property
    def failed(self) -> tuple[TestRecord, ...]:
        """The attempts that did not pass."""
        return tuple(r for r in self.records if not r.ok)

    @property
    def flaky(self) -> bool:
        """True where an attempt failed and the last one did not."""
        return self.last.ok and (self.last.flaky or bool(self.failed))

    @property
    def ok(self) -> bool:
        """True where the last attempt counts as not failed."""
        return self.last.ok

    @property
    def duration_s(self) -> float:
        """The time of all attempts."""
        return sum(r.duration_s for r in self.records)


@dataclass(frozen=True)
class Summary:
    """A whole run. ``records`` are all attempts in the order in which they finished.

    ``not_run`` are ids that were selected and never finished; ``messages`` what the harness itself had to
    say; ``rerun_command`` runs exactly the failed tests, None without any.
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
        """One entry a test and repeat, in the order in which their last attempts finished."""
        found: dict[tuple[str, int], list[TestRecord]] = {}
        for record in self.records:
            same = found.pop((record.id, record.repeat), [])
            found[record.id, record.repeat] = [*same, record]
        return tuple(Attempts(tuple(sorted(a, key=lambda r: r.attempt))) for a in found.values())

    @cached_property
    def counts(self) -> Mapping[Status, int]:
        """How many tests came to each status by their last attempt."""
        return Counter(t.last.status for t in self.tests)

    @property
    def passed(self) -> int:
        """Tests that passed, expected failures and flaky ones among them."""
        return self.counts.get(Status.PASSED, 0) + self.counts.get(Status.XFAILED, 0)

    @property
    def skipped(self) -> int:
        """Tests that were skipped."""
        return self.counts.get(Status.SKIPPED, 0)

    @property
    def failed(self) -> int:
        """Tests that did neither pass nor get skipped, whatever became of them."""
        return len(self.tests) - self.passed - self.skipped

    @cached_property
    def flaky(self) -> tuple[Attempts, ...]:
        """Tests that failed and then passed."""
        return tuple(t for t in self.tests if t.flaky)

    @cached_property
    def failures(self) -> tuple[Attempts, ...]:
        """Tests that did not pass in the end."""
        return tuple(t for t in self.tests if not t.ok)

    @property
    def failed_ids(self) -> tuple[str, ...]:
        """Ids of failed tests, each once, in order; those that an interrupt ended have not failed."""
        return tuple(dict.fromkeys(t.id for t in self.failures if t.last.status is not Status.ENDED))

    def slowest(self, number: int) -> tuple[Attempts, ...]:
        """So many tests that took longest, longest first; skipped ones never."""
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

    @property
    def line(self) -> str:
        """The last line of every run, for people and scripts: ``3 passed, 1 failed, 2 skipped``.

        The three counts are always there and add up to all tests.
        """
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    @property
    def asides(self) -> str:
        """What else there is to count, "" for nothing: ``1 flaky, 2 expected failures, 5 not run``."""
        numbers = {
            "flaky": len(self.flaky),
            "crashed": self.counts.get(Status.CRASHED, 0),
            "timed out": self.counts.get(Status.TIMED_OUT, 0),
            "failed as expected": self.counts.get(Status.XFAILED, 0),
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

    ``selected`` are the ids that should have run; ``command`` is what a user types to start the runner
    here, with options that the rerun needs (a seed, ``--slow``), ``names`` as in ``RunInfo``.
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
        rerun_command(command, [names.get(test_id, test_id) for test_id in summary.failed_ids]),
        tuple(messages),
    )


def rerun_command(command: str, names: Sequence[str]) -> str | None:
    """The one command that runs exactly the failed tests; None without any.

    Beyond ``MAX_RERUN_IDS`` it names ``--last-failed``, which reads them from the run before.
    """
    if not names:
        return None
    if len(names) > MAX_RERUN_IDS:
        return f"{command} --last-failed"
    return " ".join([command, *(shlex.quote(name) for name in names)])
