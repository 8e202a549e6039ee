"""Tests faults in and around collectives and rendezvous; peers that wait there are collateral."""

from __future__ import annotations

import os
import unittest
from unittest import mock

from harness import Status
from suites.selftest.faults import collectives
from suites.selftest.faults.rows import OnForkedInterpreters, OnForkServer, Rows

# Upstream's harness loses about one 4-rank test in nine to "connectFullMesh ... Connection closed by peer".
# There so many in a row pass once in a thousand times.
REPETITIONS = 60
# Seconds. A rank that waits in C cannot tell that it does: within the grace it has to get there.
GRACES = {"HARNESS_GRACE": "1", "HARNESS_SKIP_GRACE": "1"}


class CollectiveRows(Rows):
    """Rank 1 goes wrong while rank 0 waits for it."""

    def collateral(self, method: str, verdict: str, status: Status, *said: str) -> None:
        """Checks a verdict for which rank 0 is found waiting in its all-reduce."""
        played = self.play(collectives.Collectives, method, **GRACES)
        self.check(played, verdict, status, *said, "all_reduce", collateral=(0,))
        self.assertEqual(played.rank(0).calls[-1].signature.operation, "all_reduce")
        self.assertIsNone(played.rank(0).calls[-1].ended_s)

    def test_fails(self) -> None:
        """A failing rank is the cause, and its peer waits in all_reduce #2."""
        self.collateral("test_fails", "FAIL", Status.FAILED, "rank 1 will not reduce", "all_reduce #2")

    def test_dies(self) -> None:
        """A rank's crash is the cause, and not the closed connection that its peer saw."""
        played = self.play(collectives.Collectives, "test_dies")
        self.check(played, "ERROR", Status.CRASHED, "rank 1 crashed: exit code 4")

    def test_hangs(self) -> None:
        """A rank left alone in an all-reduce is deadlocked, long before the deadline."""
        played = self.play(collectives.Hangs, "test_hangs", HARNESS_TIMEOUT="600")
        words = ("rank 1 left the test after all_reduce #1", "rank 0 waits in all_reduce #2")
        self.check(played, "ERROR", Status.DEADLOCKED, *words, root=1)
        self.assertEqual(played.rank(1).status, Status.PASSED)

    def test_fails_before_init(self) -> None:
        """A rank that fails before init_process_group is the cause, and its peer waits in the rendezvous."""
        played = self.play(collectives.Rendezvous, "test_fails_before_init", **GRACES)
        self.check(played, "FAIL", Status.FAILED, "rank 1 will not come", collateral=(0,))
        self.assertIn("init_process_group", played.rank(0).stack)

    def test_threads(self) -> None:
        """OMP_NUM_THREADS sets a rank's threads; without it, each rank has its share and at least one."""
        share = max(1, len(os.sched_getaffinity(0)) // 2)
        wish = 2 if share == 1 else 1  # torch itself takes no more than there are processors
        played = self.play(collectives.Collectives, "test_threads", OMP_NUM_THREADS=str(wish))
        self.assertEqual([o.output for o in played.outcome.ranks], [f"{wish} {wish}\n"] * 2)
        with mock.patch.dict(os.environ):
            os.environ.pop("OMP_NUM_THREADS", None)
            played = self.play(collectives.Collectives, "test_threads")
        self.assertEqual([o.output.split()[0] for o in played.outcome.ranks], [str(share)] * 2)


class CollectivesOnForkServer(CollectiveRows, OnForkServer):
    """Runs on the fork server, with tests independent of the launcher: spawning costs seconds each."""

    def test_skips(self) -> None:
        """A rank that skips alone is an error, and its peer in an all-reduce is collateral."""
        self.collateral("test_skips", "ERROR", Status.ERROR, "divergent skip: rank 1 skipped")

    def test_fails_before_set(self) -> None:
        """A rank that raises is the cause, and its peer waits at the store."""
        played = self.play(collectives.Rendezvous, "test_fails_before_set", **GRACES)
        self.check(played, "ERROR", Status.ERROR, "rank 1 will not set it", collateral=(0,))
        self.assertIn("test_fails_before_set", played.rank(0).stack)

    def test_mismatch(self) -> None:
        """Ranks in different collectives are an error that says who was in which one."""
        played = self.play(collectives.Hangs, "test_mismatch")
        self.assertEqual(played.verdict, "ERROR", played.text)
        last = [o.calls[-1].signature.operation for o in played.outcome.ranks]
        self.assertEqual(last, ["barrier", "broadcast"], played.text)
        self.assertIn("barrier #2", played.text)
        self.assertIn("broadcast #2", played.text)

    def test_wrong_result(self) -> None:
        """A failure that is the same on both ranks is shown once."""
        played = self.play(collectives.Collectives, "test_wrong_result")
        self.check(played, "FAIL", Status.FAILED, "ranks 0, 1", root=played.outcome.root_cause)
        self.assertEqual(played.text.count("Traceback (most recent call last)"), 1, played.text)

    def test_passes(self) -> None:
        """A group that nobody destroys does no harm."""
        played = self.play(collectives.Collectives, "test_passes")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_autograd_in_threads(self) -> None:
        """Thread pools work in a rank."""
        played = self.play(collectives.Collectives, "test_autograd_in_threads", OMP_NUM_THREADS="2")
        self.assertEqual(played.verdict, "pass", played.text)

    def test_ranks_that_leave_early(self) -> None:
        """Ranks that are done early never close a connection on a peer, in sixty runs."""
        with mock.patch.dict(os.environ):
            os.environ.pop("TORCH_DIST_INIT_BARRIER", None)
            for repetition in range(REPETITIONS):
                played = self.play(collectives.LeavesEarly, "test_leave")
                self.assertEqual(played.verdict, "pass", f"repetition {repetition}: {played.text}")


class CollectivesOnSpawn(CollectiveRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""

    imports = ("torch.distributed",)


if __name__ == "__main__":
    unittest.main()
