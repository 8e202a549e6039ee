"""Tests the rank mode "threads" on classes whose ``_run`` records a result."""

from __future__ import annotations

import threading
import unittest
from typing import Any, ClassVar
from unittest import mock

from harness.outcomes import Status
from harness.protocol import Launch, ModuleRef
from harness.rank_merging import DEFAULT_RULES
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.job import Job
from harness.ranks.result import RankResult
from harness.ranks.threads import mode
from harness.ranks.threads.mode import ThreadRanks
from harness.ranks.threads.rank_set import RankThreads
from harness.settings import Settings
from suites.selftest.ranks.threads.running import ARRIVAL_S

WORLD_SIZE = 3


class Case:
    """A class that notes how its ranks are run."""

    own = -1
    calls: ClassVar[dict[int, tuple[Any, ...]]] = {}
    seen: ClassVar[list[int]] = []

    @classmethod
    def _run(cls, rank: int, method: str, file_name: str, channel: DirectChannel, **more: Any) -> None:
        cls.seen.append(cls.own)
        cls.own = rank
        cls.calls[rank] = (method, file_name, more)
        channel.record(RankResult(Status.FAILED if rank == 1 else Status.PASSED))


class OwnWay(Case):
    """A class that runs its ranks in a way of its own."""

    @staticmethod
    def _run_in_thread(rank: int, method: str, channel: DirectChannel) -> None:
        Case.calls[rank] = (method,)
        channel.record(RankResult(Status.SKIPPED, skip_reason="not today"))


class Together(Case):
    """A class whose ranks wait for each other, which ranks that take turns cannot."""

    takes_turns = False
    meeting = threading.Barrier(WORLD_SIZE)

    @classmethod
    def _run(cls, rank: int, method: str, file_name: str, channel: DirectChannel, **more: Any) -> None:
        cls.meeting.wait(ARRIVAL_S)
        channel.record(RankResult(Status.PASSED))


class Endless(Case):
    """A class whose rank runs until it is ended."""

    begun = threading.Event()

    @classmethod
    def _run(cls, rank: int, method: str, file_name: str, channel: DirectChannel, **more: Any) -> None:
        while True:
            cls.begun.set()


def job(case: type, world_size: int = WORLD_SIZE) -> Job:
    """Returns the job of one test."""
    request = Launch(
        ModuleRef("m"), "Case", "test_it", world_size, "a file", {}, "/", [], [], kwargs={"fake_pg": True}
    )
    return Job(case, "m.Case.test_it", request, Settings(), ARRIVAL_S)


class ThreadRanksTest(unittest.TestCase):
    """``ThreadRanks``, from the start of a test's threads to their end."""

    def setUp(self) -> None:
        Case.calls.clear()
        Case.seen.clear()

    def statuses(self, case: type) -> list[Status]:
        """Returns the statuses of a test's ranks."""
        ranks = ThreadRanks(job(case))
        self.addCleanup(ranks.close)
        result = ranks.join(DEFAULT_RULES)
        self.assertEqual([thread.is_alive() for thread in ranks.threads], [False] * WORLD_SIZE)
        self.assertEqual((list(ranks.processes), ranks.how_the_server_ended()), ([], "no server"))
        return [outcome.status for outcome in result.outcomes]

    def test_each_rank_runs(self) -> None:
        """Each rank runs the class's ``_run`` with what a process would get."""
        self.assertEqual(self.statuses(Case), [Status.PASSED, Status.FAILED, Status.PASSED])
        expected = ("test_it", "a file", {"fake_pg": True})
        self.assertEqual(Case.calls, dict.fromkeys(range(WORLD_SIZE), expected))

    def test_own_class(self) -> None:
        """What a rank sets on its class is seen neither by the other ranks nor by the parent."""
        self.statuses(Case)
        self.assertEqual((Case.seen, Case.own), ([-1] * WORLD_SIZE, -1))

    def test_own_way(self) -> None:
        """A class with ``_run_in_thread`` has that called instead."""
        self.assertEqual(self.statuses(OwnWay), [Status.SKIPPED] * WORLD_SIZE)
        self.assertEqual(Case.calls, dict.fromkeys(range(WORLD_SIZE), ("test_it",)))

    def test_all_at_once(self) -> None:
        """The ranks of a class that takes no turns run at the same time."""
        for case, turns in ((Together, False), (Case, True)):
            with mock.patch.object(mode, "RankThreads", wraps=RankThreads) as made:
                self.statuses(case)
            self.assertEqual(made.call_args.kwargs["turns"], turns)
        self.assertFalse(Together.meeting.broken)

    def test_close(self) -> None:
        """Threads that nobody joins are ended, also while they run; a second close does nothing."""
        ranks = ThreadRanks(job(Endless, world_size=1))
        self.assertTrue(Endless.begun.wait(ARRIVAL_S))
        ranks.close()
        ranks.close()
        ranks.threads[0].join(ARRIVAL_S)
        self.assertFalse(ranks.threads[0].is_alive())


if __name__ == "__main__":
    unittest.main()
