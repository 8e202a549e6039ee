"""Tests local-tensor ranks: the job of the one process, its outcome for every rank, and the simulation."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any

from harness import RankOutcome, Status, UsageError
from harness.cases.dtensor import LocalDTensorTestBase
from harness.errors import LaunchError
from harness.protocol import Launch, ModuleRef
from harness.rank_merging import DEFAULT_RULES, MergeRules
from harness.ranks.job import Job, JobResult
from harness.ranks.local import rank as local
from harness.ranks.local.mode import POLLUTED, LocalTensorRanks
from harness.settings import Settings

PASSED = RankOutcome(0, Status.PASSED, output="printed\n", pid=7)
FAILED = RankOutcome(0, Status.FAILED)
NO_TIME = "its deadline leaves no time to try it in a new process, so earlier tests cannot be ruled out"


def job(case: Any = LocalDTensorTestBase, world_size: int = 3) -> Job:
    """Returns the job of a test that wants ``world_size`` ranks."""
    request = Launch(
        module=ModuleRef("somewhere"),
        qualname="Case",
        method="test_it",
        world_size=world_size,
        file_name="/nowhere",
        environ={"OMP_NUM_THREADS": ""},
        cwd="/",
        sys_path=[],
        argv=[],
        kwargs={"fake_pg": False},
    )
    return Job(case, "somewhere.Case.test_it", request, Settings(), 60.0, pool_key="key")


class Played:
    """Ranks that end as they are told, with one end for each start."""

    def __init__(self, *ends: JobResult, kept: bool = True) -> None:
        self.ends = list(ends)
        self.kept = kept
        self.started: list[Job] = []
        self.processes: list[Any] = []
        self.closed = 0
        self.first_of_its_set = True

    def __call__(self, wanted: Job) -> Played:
        self.first_of_its_set = not self.kept or bool(self.started)
        self.started.append(wanted)
        return self

    def join(self, rules: MergeRules) -> JobResult:
        """Returns the next of the given ends."""
        return self.ends.pop(0)

    def close(self) -> None:
        """Counts how often it is called."""
        self.closed += 1

    def how_the_server_ended(self) -> str:
        """Returns a fixed text."""
        return "as played"


def end(outcome: RankOutcome, **more: Any) -> JobResult:
    """What the supervisor would say."""
    return JobResult((outcome,), (), **more)


class LocalModeTest(unittest.TestCase):
    """The local rank mode, on processes that are played."""

    def test_one_process_for_all_ranks(self) -> None:
        """The request says how many ranks to simulate, and the pool's key holds the mode and that number."""
        played = Played(end(PASSED))
        LocalTensorRanks(job(), played)
        (wanted,) = played.started
        self.assertEqual(wanted.request.world_size, 1)
        self.assertEqual(wanted.request.kwargs, {"fake_pg": False, local.ARGUMENT: 3})
        self.assertEqual(wanted.pool_key, ("local", 3, "key"))

    def test_outcome_is_every_ranks(self) -> None:
        """What it printed is told once."""
        watched = LocalTensorRanks(job(), Played(end(PASSED))).join(DEFAULT_RULES)
        self.assertEqual(
            [(o.rank, o.output, o.pid) for o in watched.outcomes],
            [(0, "printed\n", 7), (1, "", 7), (2, "", 7)],
        )

    def test_failure_in_a_new_process(self) -> None:
        """A failure in a new process is the test's own, so that nothing is tried again."""
        played = Played(end(FAILED), kept=False)
        watched = LocalTensorRanks(job(), played).join(DEFAULT_RULES)
        self.assertEqual(len(played.started), 1)
        self.assertEqual([o.status for o in watched.outcomes], [Status.FAILED] * 3)

    def test_failure_in_a_kept_process(self) -> None:
        """A failure in a kept process is tried again in a new one; a pass there means pollution."""
        second = replace(FAILED, note="second")
        table = ((end(second), "second", ()), (end(PASSED), "", (POLLUTED,)))
        for again, note, told in table:
            with self.subTest(again=again):
                played = Played(end(FAILED), again)
                watched = LocalTensorRanks(job(), played).join(DEFAULT_RULES)
                self.assertEqual(len(played.started), 2)
                self.assertEqual({(o.status, o.note) for o in watched.outcomes}, {(Status.FAILED, note)})
                self.assertEqual(watched.notes, told)

    def test_no_second_attempt(self) -> None:
        """There is no second attempt after Ctrl-C or if the deadline leaves too little time for one."""
        for first, told in (
            (end(FAILED, interrupted=True), ()),
            (end(replace(FAILED, status=Status.TIMED_OUT)), (NO_TIME,)),
        ):
            with self.subTest(first=first):
                played = Played(first)
                mode = LocalTensorRanks(replace(job(), timeout_s=0.0 if told else 60.0), played)
                watched = mode.join(DEFAULT_RULES)
                self.assertEqual((len(played.started), watched.notes), (1, told))
                self.assertEqual(watched.interrupted, not told)

    def test_second_attempt_without_an_end(self) -> None:
        """Ctrl-C is told; where the server dies or nothing starts, the first failure stands."""
        interrupted = LocalTensorRanks(job(), Played(end(FAILED), end(FAILED, interrupted=True))).join(
            DEFAULT_RULES
        )
        self.assertTrue(interrupted.interrupted)
        lost = LocalTensorRanks(job(), Played(end(FAILED), end(FAILED, server_lost=True))).join(DEFAULT_RULES)
        self.assertFalse(lost.server_lost)
        self.assertRegex(lost.notes[0], "could not be tried in a new process: the server")

        def refuses(wanted: Job) -> Played:
            if played.started:
                raise LaunchError("no more processes")
            return played(wanted)

        played = Played(end(FAILED))
        refused = LocalTensorRanks(job(), refuses).join(DEFAULT_RULES)
        self.assertEqual(refused.notes, ("it could not be tried in a new process: no more processes",))
        self.assertEqual({o.status for o in refused.outcomes}, {Status.FAILED})

    def test_second_attempt_out_of_time(self) -> None:
        """If the second attempt times out, the first failure stands."""
        slow = end(replace(FAILED, status=Status.TIMED_OUT))
        watched = LocalTensorRanks(job(), Played(end(FAILED), slow)).join(DEFAULT_RULES)
        self.assertEqual({o.status for o in watched.outcomes}, {Status.FAILED})
        self.assertEqual(watched.notes, (NO_TIME,))

    def test_second_attempt_is_within_the_first_ones_deadline(self) -> None:
        """The second attempt keeps to the first one's deadline and writes no logs."""
        played = Played(end(FAILED), end(FAILED))
        LocalTensorRanks(replace(job(), settings=Settings(log_dir="/logs")), played).join(DEFAULT_RULES)
        first, second = played.started
        self.assertEqual((first.settings.log_dir, second.settings.log_dir), ("/logs", None))
        self.assertLess(second.timeout_s, first.timeout_s)

    def test_lost_server(self) -> None:
        """A lost server says nothing about the test and is passed on."""
        played = Played(end(replace(FAILED, status=Status.CRASHED), server_lost=True))
        mode = LocalTensorRanks(job(), played)
        self.assertTrue(mode.join(DEFAULT_RULES).server_lost)
        self.assertEqual((len(played.started), mode.how_the_server_ended()), (1, "as played"))

    def test_announced_end(self) -> None:
        """A process that ends as its test announced has not failed."""
        played = Played(end(replace(FAILED, status=Status.CRASHED, exit_code=3)))
        LocalTensorRanks(job(), played).join(MergeRules(expected_exit=3))
        self.assertEqual(len(played.started), 1)

    def test_close(self) -> None:
        """close is passed on to the processes."""
        played = Played(end(PASSED))
        LocalTensorRanks(job(), played).close()
        self.assertEqual(played.closed, 1)

    def test_class_that_cannot_play(self) -> None:
        """A class that cannot be simulated is refused, because its method would wait for peers as rank 0."""
        with self.assertRaisesRegex(UsageError, "derive it from DTensorTestBase"):
            LocalTensorRanks(job(case=unittest.TestCase), Played())


if __name__ == "__main__":
    unittest.main()
