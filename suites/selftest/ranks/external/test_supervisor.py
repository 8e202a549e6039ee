"""Tests the listener of external ranks: whose word counts, and what becomes of silent ranks."""

from __future__ import annotations

import threading
import unittest
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast
from unittest import mock

from harness import RankOutcome, Status
from harness.rank_merging import MergeRules
from harness.ranks.deadlines import Limits
from harness.ranks.external import supervisor
from harness.ranks.external.deadlock_watch import LOOK_EVERY_S
from harness.ranks.external.outcome_log import OutcomeLog
from harness.ranks.external.rank import InProcessRank
from harness.ranks.external.supervisor import (
    CLOSE_S,
    DECLARE_LOST_S,
    LAST_LADDER,
    UNWIND_S,
    ExternalSupervisor,
)

LIMITS = Limits(timeout_s=60.0, grace_s=1.0, skip_grace_s=10.0, exit_grace_s=5.0)


def said(rank: int, status: Status = Status.PASSED) -> RankOutcome:
    """Returns an outcome of a rank."""
    return RankOutcome(rank, status)


@dataclass(frozen=True)
class Word:
    """An entry of the log."""

    outcome: RankOutcome
    lost: bool = False


@dataclass
class Log:
    """A log with a clock of its own, on which a wait passes at once.

    ``later`` holds entries with the times at which they come.
    """

    words: list[Word] = field(default_factory=list)
    later: list[tuple[float, Word]] = field(default_factory=list)
    now: float = 0.0
    stuck: tuple[int, ...] = ()

    def append(self, outcome: RankOutcome, *, lost: bool = False) -> None:
        """Appends an entry to the log."""
        self.words.append(Word(outcome, lost))

    def read(self, number: int, timeout_s: float, wake: threading.Event | None = None) -> Word | None:
        """Returns entry ``number`` if it is there or comes within the time, else None."""
        until = self.now + timeout_s
        while number >= len(self.words):
            if not self.later or self.later[0][0] > until:
                self.now = until
                return None
            when, word = self.later.pop(0)
            self.now = max(self.now, when)
            self.words.append(word)
        return self.words[number]

    def watch(self, rank: int, until_s: float) -> Watch:
        """Returns a watch that finds what ``deadlocked`` says."""
        return Watch(self)

    def last_test_of(self, rank: int) -> str:
        """Returns the same text for all ranks."""
        return "it is nowhere"


class Watch:
    """A watch over the ranks that proves what the log's ``stuck`` says."""

    def __init__(self, log: Log) -> None:
        self.log = log

    def tell(self, *what: object) -> None:
        """Does nothing: nobody listens."""

    def judge(self, silent: object, settled: object, *, all_of_them: bool) -> None:
        """Does nothing: what it would find is known."""

    def deadlocked(self, settled: int) -> tuple[int, ...]:
        """Returns the ranks that are said to be stuck."""
        return self.log.stuck


class Own:
    """A rank of this process that ``on_stop`` may end when it is stopped."""

    def __init__(self, rank: int, on_stop: Callable[[], None] = lambda: None) -> None:
        self.rank = rank
        self.done = threading.Event()
        self.stopped: list[Status] = []
        self.on_stop = on_stop

    def stop(self, status: Status) -> None:
        """Notes the status with which the rank is stopped."""
        self.stopped.append(status)
        self.on_stop()

    def log(self) -> tuple[None, tuple[()]]:
        """Returns no head and no calls."""
        return None, ()

    def stuck(self) -> RankOutcome:
        """Returns the outcome of the rank as one that could not be stopped."""
        return RankOutcome(self.rank, self.stopped[-1], note="stuck")


class ListenerTest(unittest.TestCase):
    """The listener, on the test's own clock."""

    def setUp(self) -> None:
        self.log = Log()
        self.ended: list[ExternalSupervisor] = []
        self.over = threading.Event()
        self.turns: list[float] = []

    def made(self, size: int, own: Own | None, rules: MergeRules | None = None) -> ExternalSupervisor:
        """A listener on the scripted log that has not begun."""
        return ExternalSupervisor(
            cast(OutcomeLog, self.log),
            0,
            size,
            LIMITS,
            cast("InProcessRank | None", own),
            self.ended.append,
            rules or MergeRules(),
            self.over,
            self.turns.append,
            clock=lambda: self.log.now,
        )

    def listen(
        self, size: int, own: Own | None = None, rules: MergeRules | None = None
    ) -> ExternalSupervisor:
        """A listener that has come to its end."""
        listener = self.made(size, own, rules)
        listener.cleaned.set()
        listener.run()
        self.assertTrue(listener.released.is_set())
        return listener

    def statuses(self, listener: ExternalSupervisor) -> list[Status]:
        """Returns the statuses by rank."""
        return [o.status for o in listener.watch.outcomes]

    def test_all_come(self) -> None:
        """The outcomes have the order in which the ranks reported, and not that of their numbers."""
        self.log.later = [(1.0, Word(said(1))), (2.0, Word(said(0)))]
        listener = self.listen(2)
        self.assertEqual(
            [(o.rank, o.order, o.at_s) for o in listener.watch.outcomes], [(0, 1, 2.0), (1, 0, 1.0)]
        )
        self.assertEqual(listener.lost, ())

    def test_first_word_counts(self) -> None:
        """The first outcome about a rank counts, even if the rank reports another one later."""
        self.log.words = [Word(said(1, Status.CRASHED), lost=True), Word(said(1)), Word(said(0))]
        listener = self.listen(2)
        self.assertEqual(self.statuses(listener), [Status.PASSED, Status.CRASHED])
        self.assertEqual(listener.lost, (1,))

    def test_silent(self) -> None:
        """A silent rank is lost after the deadline, or the grace after a failure or skip, and a last wait."""
        table = (
            (Status.PASSED, 60.0, "by the deadline"),
            (Status.FAILED, 1.0, "after another rank had failed"),
            (Status.SKIPPED, 10.0, "after another rank had skipped"),
        )
        for status, patience, why in table:
            with self.subTest(status):
                self.log = Log([Word(said(0, status))])
                listener = self.listen(3)
                self.assertEqual(self.statuses(listener), [status, Status.CRASHED, Status.CRASHED])
                self.assertEqual(listener.watch.outcomes[2].note, f"no word from it {why}; it is nowhere")
                self.assertEqual(listener.lost, (1, 2))
                self.assertAlmostEqual(self.log.now, patience + DECLARE_LOST_S)

    def test_announced_end(self) -> None:
        """An announced exit is no failure, so that the other ranks have until the deadline."""
        ended = RankOutcome(0, Status.CRASHED, exit_code=7)
        self.log = Log([Word(ended)], [(30.0, Word(said(1)))])
        listener = self.listen(2, rules=MergeRules(expected_exit=7))
        self.assertEqual(self.statuses(listener), [Status.CRASHED, Status.PASSED])

    def test_own_comes_back(self) -> None:
        """The process's own rank is stopped at the deadline and reports like the others."""

        def come_back() -> None:
            own.done.set()
            self.log.append(said(0, Status.TIMED_OUT))

        own = Own(0, come_back)
        self.log.words = [Word(said(1))]
        listener = self.listen(2, own)
        self.assertEqual(own.stopped, [Status.TIMED_OUT])
        self.assertEqual(self.statuses(listener), [Status.TIMED_OUT, Status.PASSED])
        self.assertEqual((listener.lost, self.ended), ((), []))

    def test_own_is_stuck(self) -> None:
        """If the own rank is stuck, its outcome comes before it is declared lost, and the process ends."""
        own = Own(0)
        self.log.words = [Word(said(1, Status.ERROR))]
        listener = self.listen(2, own)
        self.assertEqual(own.stopped, [Status.ENDED])
        self.assertEqual([o.note for o in listener.watch.outcomes], ["stuck", ""])
        self.assertEqual((listener.lost, self.ended), ((0,), [listener]))
        self.assertAlmostEqual(self.log.now, LIMITS.grace_s + UNWIND_S)
        self.assertEqual(self.turns, [DECLARE_LOST_S + LIMITS.exit_grace_s])

    def test_launcher_ends_the_job(self) -> None:
        """Silent ranks are given up at once, and lost before the launcher kills; who reports first is not."""
        own = Own(0)
        own.on_stop = own.done.set
        self.over.set()
        self.log.later = [(0.1, Word(said(0, Status.ENDED))), (0.2, Word(said(1, Status.ENDED)))]
        listener = self.listen(3, own)
        self.assertEqual(own.stopped, [Status.ENDED])
        self.assertEqual(self.statuses(listener), [Status.ENDED, Status.ENDED, Status.CRASHED])
        note = "no word from it when the launcher ended the job (SIGTERM); it is nowhere"
        self.assertEqual((listener.watch.outcomes[2].note, listener.lost), (note, (2,)))
        self.assertAlmostEqual(self.log.now, LAST_LADDER[-1])
        self.assertLess(self.log.now, 1.0)

    def test_launcher_ends_the_job_of_a_failure(self) -> None:
        """A test that is being ended already comes to its end as soon."""
        own = Own(0)
        own.on_stop = lambda: self.over.set() if len(own.stopped) == 1 else own.done.set()
        self.log.words = [Word(said(1, Status.ERROR))]
        listener = self.listen(2, own)
        self.assertEqual(own.stopped, [Status.ENDED, Status.ENDED])
        self.assertEqual(self.statuses(listener)[1], Status.ERROR)
        self.assertLessEqual(self.log.now, LIMITS.grace_s + LOOK_EVERY_S + LAST_LADDER[-1])

    def test_groups_are_released(self) -> None:
        """Groups are released soon after silent ranks were given up, so that they wake up, and not before."""
        own = Own(0)
        own.done.set()
        self.log.words = [Word(said(0, Status.FAILED))]
        seen = []
        read = self.log.read

        def look(number: int, timeout_s: float, wake: object) -> Word | None:
            seen.append((self.log.now, listener.released.is_set()))
            return read(number, timeout_s)

        listener = self.made(2, own)
        listener.cleaned.set()
        with mock.patch.object(self.log, "read", look):
            listener.run()
        given_up = LIMITS.grace_s
        self.assertEqual({was for now, was in seen if now < given_up + CLOSE_S}, {False})
        self.assertIn(given_up, dict(seen))
        self.assertTrue(dict(seen)[given_up + CLOSE_S])
        self.assertEqual(own.stopped, [])

    def test_lost_to_others(self) -> None:
        """An own test that goes on after the others have given it up is ended as well."""
        own = Own(0)
        self.log.words = [Word(said(0, Status.CRASHED), lost=True), Word(said(1))]
        with (
            mock.patch.object(supervisor, "UNWIND_S", 0.01),
            mock.patch.object(own.done, "wait", side_effect=[False, False]) as wait,
        ):
            listener = self.listen(2, own)
        self.assertEqual([c.args for c in wait.call_args_list], [(LIMITS.grace_s,), (0.01,)])
        self.assertEqual((own.stopped, self.ended), ([Status.ENDED], [listener]))

    def test_no_store(self) -> None:
        """An error of the log is kept for the caller, and the own test is still ended."""
        own = Own(0)
        own.on_stop = own.done.set
        gone = RuntimeError("connection closed")
        limits = mock.patch.object(supervisor, "_bounded", lambda seconds: 0.0)
        with mock.patch.object(self.log, "read", side_effect=gone), limits:
            listener = self.listen(2, own)
        self.assertIs(listener.failure, gone)
        self.assertEqual((own.stopped, self.ended), ([Status.ENDED], []))

    def test_groups_that_stay(self) -> None:
        """If the groups cannot be destroyed in time, the process ends."""
        own = Own(0)
        own.done.set()
        self.log.words = [Word(said(0)), Word(said(1))]
        listener = self.made(2, own)
        with mock.patch.object(listener.cleaned, "wait", return_value=False) as wait:
            listener.run()
        wait.assert_called_once_with(LIMITS.exit_grace_s)
        self.assertEqual(self.ended, [listener])


if __name__ == "__main__":
    unittest.main()
