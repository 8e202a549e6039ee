"""Tests who the workers of RPC are: tables of what ranks have joined, asked and left."""

from __future__ import annotations

import unittest

from harness.communication.analysis.rpc_workers import (
    AbsentWorkers,
    absent_workers,
    agent_is_up,
    may_be_answered,
    rank_of,
)
from suites.selftest.communication.samples import asks, call, joins, leaves

JOINED = {rank: [joins(f"w{rank}", state="ended")] for rank in range(4)}


class RpcWorkersTest(unittest.TestCase):
    """What the calls of four ranks say of the workers that they are."""

    def test_rank_of(self) -> None:
        """By the name under which a rank has joined, or begun to; never by a name of two ranks."""
        calls = {0: [joins("a")], 1: [joins("b", state="ended")], 2: [joins("b")], 3: [call(), asks("c")]}
        self.assertEqual([rank_of(calls, name) for name in "abc"], [0, None, None])
        self.assertEqual(rank_of(JOINED, "w2"), 2)

    def test_absent_workers(self) -> None:
        """Each row: what the ranks have done besides joining, and for whom rank 0 waits in its last call."""
        end, again = leaves("w0"), leaves("w0", number=2)
        left, joined = leaves("x", state="ended"), joins("x", number=2, state="ended")
        table = {
            "nobody else has come": ([[end], [], [asks("w0")], []], AbsentWorkers((1, 2, 3), 3)),
            "one has not": ([[end], [left], [end], []], AbsentWorkers((3,), 1)),
            "all have come": ([[end], [left], [end], [end]], AbsentWorkers()),
            "the second time": ([[left, again], [left], [left], [left, again]], AbsentWorkers((1, 2), 2)),
            "a log has dropped the first time": (
                [[left, again], [again], [left, joined], [joined, again]],
                AbsentWorkers((2,), 1),
            ),
            "who joins again has left": ([[end], [joined], [left], [joined]], AbsentWorkers()),
        }
        for name, (more, expected) in table.items():
            with self.subTest(name):
                calls = {rank: [*JOINED[rank], *mine] for rank, mine in enumerate(more)}
                self.assertEqual(absent_workers(calls, calls[0][-1]), expected)

    def test_other_members(self) -> None:
        """Ranks that have not joined are no workers where enough have; others may be workers too."""
        two = leaves("w0", workers=2)
        calls = {0: [*JOINED[0], two], 1: JOINED[1], 2: [], 3: []}
        self.assertEqual(absent_workers(calls, two), AbsentWorkers((1,), 1))
        few, many = joins("w0", workers=2), joins("w0", workers=9)
        self.assertEqual(absent_workers({0: [few], 1: [], 2: []}, few), AbsentWorkers((1, 2), 1))
        beside = {0: [many], 1: [], 2: [joins("w2", workers=9)]}
        self.assertEqual(absent_workers(beside, many), AbsentWorkers((1,), 7))

    def test_agent_is_up(self) -> None:
        """From the end of the joining to that of the shutdown."""
        joined, left = joins("a", state="ended"), leaves("a", state="ended")
        table = {
            (): False,
            (joins("a"),): False,
            (joined, asks("b")): True,
            (joined, leaves("a")): True,
            (joined, left): False,
            (joined, left, joined): True,
            (left, joined): True,  # the log has dropped the first time
            (joined, joins("a")): True,
            (joined, left, joins("a")): False,
        }
        for mine, expected in table.items():
            with self.subTest([each.name for each in mine]):
                self.assertEqual(agent_is_up(mine), expected)

    def test_may_be_answered(self) -> None:
        """By a worker that is not among those who never answer, and by one that is no rank."""
        for waiting, never, expected in (
            ([asks("w1")], {2}, True),
            ([asks("w1")], {1}, False),
            ([asks("nobody")], {1}, True),
            ([leaves("w0")], set[int](), False),
            ([], set[int](), False),
        ):
            with self.subTest(waiting=[str(each) for each in waiting], never=never):
                self.assertEqual(may_be_answered(JOINED, waiting, never), expected)


if __name__ == "__main__":
    unittest.main()
