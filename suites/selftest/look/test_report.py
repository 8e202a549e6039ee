"""Tests the text of a look: tables of ranks, and runs of real ranks that are looked at from outside."""

from __future__ import annotations

import contextlib
import os
import select
import unittest
from dataclasses import replace

from harness.communication.analysis.wait_graph import Waiting
from harness.communication_call import Call, Kind, Signature
from harness.errors import UsageError
from harness.frames import Frame
from harness.look import report
from harness.look.ranks import SeenRank, SeenSet
from harness.look.report import MOST_SIDES, SeenTest, rank_lines, taken, words
from harness.look.stacks import Stacks, program
from harness.system.signals import RANK_STACKS
from suites.selftest.look.blocked import LOOK_S, Blocked

GROUP = Signature("all_reduce", "0", members=(0, 1, 2), default=True)
ENDED = Call(GROUP, 1, 1, started_s=1.0, waiting_s=1.0, ended_s=2.0, place="t.py:3")
WAITS = Call(GROUP, 2, 2, started_s=5.0, waiting_s=5.0, place="t.py:4")
HANDLE = Call(GROUP, 2, 2, started_s=5.0, place="t.py:4", own_work=True)
USERS = Frame("/home/me/t.py", 4, "step")
TORCHS = Frame("/x/site-packages/torch/distributed/distributed_c10d.py", 9, "all_reduce")


class WordsTest(unittest.TestCase):
    """What is said of one rank."""

    def test_words(self) -> None:
        """Its call with whom it waits for, or the last one that ended, or that it is before or after."""
        inside = replace(WAITS, waiting_s=None)
        table = {
            "not in its test yet": (SeenRank(0), None),
            "at the end of its test": (SeenRank(0, (WAITS,), 1.0, ended=True), None),
            "waiting in all_reduce #2 of the default group|5.0| (t.py:4), for ranks 1, 2": (
                SeenRank(0, (WAITS,), 1.0),
                Waiting(0, WAITS, (1, 2)),
            ),
            "in all_reduce #2 of the default group|5.0| (t.py:4)": (SeenRank(0, (inside,), 1.0), None),
            "in no communication|2.0|, since all_reduce #1 of the default group (t.py:3)": (
                SeenRank(0, (ENDED, HANDLE), 1.0),
                None,
            ),
            "in no communication so far|1.0|": (SeenRank(0, (), 1.0), None),
        }
        for expected, (rank, waiting) in table.items():
            with self.subTest(expected=expected):
                before, since_s, after = words(rank, waiting)
                said = f"{before}|{since_s}|{after}" if since_s is not None else before + after
                self.assertEqual(said, expected)


class LinesTest(unittest.TestCase):
    """What is said of a test and its ranks."""

    def test_alike_ranks(self) -> None:
        """Ranks that do the same are told together; who waits says for whom."""
        ranks = SeenSet(
            9,
            "m.T.test",
            (
                SeenRank(0, (ENDED, WAITS), 1.0, pid=10),
                SeenRank(1, (ENDED,), 1.0, pid=11),
                SeenRank(2, (ENDED, WAITS), 1.0, pid=12),
            ),
        )
        stacks = {10: Stacks({"MainThread": (TORCHS, USERS)}), 12: Stacks({"MainThread": (TORCHS, USERS)})}
        self.assertEqual(
            list(report.test_lines(SeenTest("", 9, 0.0), [ranks], stacks, 9.0)),
            [
                "m.T.test for 8.0 s (process 9, 3 ranks)",
                "  ranks 0, 2: waiting in all_reduce #2 of the default group for 4.0 s (t.py:4), for rank 1",
                "      distributed_c10d.py:9 in all_reduce",
                "      t.py:4 in step",
                "  rank 1: in no communication for 7.0 s, since all_reduce #1 of the default group (t.py:3)",
            ],
        )

    def test_no_ranks(self) -> None:
        """A test without ranks has the stack of its process."""
        lines = report.test_lines(
            SeenTest("m.T.x", 9, 0.0, "2"), [], {9: Stacks({"MainThread": (USERS,)})}, 3.0
        )
        self.assertEqual(list(lines), ["m.T.x for 3.0 s (worker 2, process 9)", "      t.py:4 in step"])

    def test_rank_threads(self) -> None:
        """Ranks that are threads are told by the stacks of these threads."""
        stacks = Stacks({"MainThread": (TORCHS,), "rank 1": (TORCHS, USERS), "rank 0": (USERS,), "pin": ()})
        lines = report.test_lines(SeenTest("m.T.x", 9, 0.0), [], {9: stacks}, 3.0)
        expected = ["m.T.x for 3.0 s (process 9)", "  rank 0: a thread", "      t.py:4 in step"]
        expected += [
            "  rank 1: a thread",
            "      distributed_c10d.py:9 in all_reduce",
            "      t.py:4 in step",
        ]
        self.assertEqual(list(lines), expected)

    def test_many_ranks(self) -> None:
        """Ranks beyond the most that are shown are counted out by their numbers."""
        calls = [replace(WAITS, number=n, sequence=n) for n in range(1, MOST_SIDES + 4)]
        ranks = tuple(SeenRank(n, (call,), 1.0) for n, call in enumerate(calls))
        lines = list(rank_lines(SeenSet(9, "", ranks), {}, 9.0))
        self.assertEqual(lines[-1], f"  ... and ranks {MOST_SIDES}-{MOST_SIDES + 2}")
        self.assertEqual(len(lines), MOST_SIDES + 1)


class RealTest(unittest.TestCase):
    """Looks at real ranks, of which one waits in a system call that no signal may end."""

    def look(self, name: str, native: bool = False) -> tuple[list[str], str]:
        """The lines of the last of three looks at a test, and what its run says in the end."""
        blocked = Blocked(self, "-m", "unittest", f"test_blocked.{name}")
        blocked.await_wait()
        for _ in range(3):
            lines = taken(blocked.process.pid, native=native)
        self.assertTrue(blocked.go_on().endswith("OK\n"), lines)
        return lines, "\n".join(lines)

    def expect_frame(self, function: str, text: str) -> None:
        """Fails where the stack lacks a function, if there are stacks; before 3.11 code knows no class."""
        if program() is not None and "may not read" not in text:
            self.assertRegex(text, rf"in (\w+\.)*{function}\b")

    def test_ranks(self) -> None:
        """Both ranks are told from their logs and stacks, and the test passes as if nobody had looked."""
        lines, text = self.look("T.test_ranks")
        self.assertRegex(lines[0], r"^test_blocked\.T\.test_ranks for [0-9.]+ s \(process \d+, 2 ranks\)$")
        self.assertRegex(text, r"rank 0: waiting in all_reduce #2 of the default group .*, for rank 1\n")
        self.assertRegex(text, r"rank 1: in no communication for .*, since all_reduce #1 of the default")
        self.expect_frame("wait_in_c", text)

    def test_threads(self) -> None:
        """Each rank thread is told by its own stack."""
        _, text = self.look("Threads.test_threads")
        self.expect_frame("wait_in_c", text)
        self.expect_frame("test_threads", text)

    def test_no_ranks(self) -> None:
        """A process without ranks has its stack."""
        _, text = self.look("Alone.test_alone")
        self.expect_frame("wait_in_c", text)

    def test_signal(self) -> None:
        """What a look avoids: the harness's own signal for stacks ends the call, and so the test fails."""
        blocked = Blocked(self, "-m", "unittest", "test_blocked.T.test_ranks")
        rank = blocked.await_wait()
        while blocked.process.poll() is None:  # the first may come before the call
            with contextlib.suppress(ProcessLookupError):
                os.kill(rank, RANK_STACKS)
            select.select([], [], [], LOOK_S)
        self.assertIn("FAIL", blocked.go_on())

    def test_no_process(self) -> None:
        """A process that there is not is told."""
        with self.assertRaises(UsageError):
            taken(2**22 + 1)


class KindsTest(unittest.TestCase):
    """Kinds of calls other than collectives."""

    def test_receive(self) -> None:
        """A rank that waits for a message waits for its sender."""
        wants = Signature("recv", "0", Kind.RECEIVE, (0, 1), default=True, backend="gloo", peer=1)
        call = Call(wants, 1, 1, started_s=1.0, waiting_s=1.0)
        ranks = SeenSet(9, "", (SeenRank(0, (call,), 1.0), SeenRank(1, (), 1.0)))
        self.assertIn("recv from rank 1 for 1.0 s, for rank 1", next(iter(rank_lines(ranks, {}, 2.0))))


if __name__ == "__main__":
    unittest.main()
