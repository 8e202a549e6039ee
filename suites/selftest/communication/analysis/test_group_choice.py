"""Tests which rank takes the group of another description than the others do: tables of calls."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.communication.analysis.difference_text import Explanation
from harness.communication.analysis.group_choice import other_group
from harness.communication.analysis.matching import CallsByRank
from harness.communication.analysis.wait_graph import RankView, waits_now
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call
from suites.selftest.communication.samples import call

TP, DP = "mesh_tp", "mesh_dp"
TOLD = "rank 3 calls all_reduce on group {1, 3} (mesh_dp) (t.py:20 in test_x), "


def on(description: str, *members: int, number: int = 1, state: str = "ended") -> Call:
    """A collective of a group with that description."""
    return call(number=number, state=state, members=members, group=str(members), description=description)


def stuck(description: str, *members: int, number: int = 1) -> Call:
    """One in which its rank waits."""
    return on(description, *members, number=number, state="waits")


CALLS: CallsByRank = {
    0: (on(TP, 0, 1),),
    1: (on(TP, 0, 1),),
    2: (stuck(TP, 2, 3),),
    3: (stuck(DP, 1, 3),),
}


class OtherGroupTest(unittest.TestCase):
    """``other_group`` in a mesh of two by two, of which ranks 0 and 1 have left where they are done."""

    def found(self, calls: CallsByRank) -> Explanation | None:
        """What is said of these calls."""
        views = [RankView(rank, mine, settled=not any(c.waits for c in mine)) for rank, mine in calls.items()]
        return other_group(calls, waits_now(views))

    def test_one_of_four(self) -> None:
        """The rank for which another one waits, and that waits on the group of another dimension."""
        told = f"{TOLD}ranks 0-2 call it on groups {{0, 1}}, {{2, 3}} (mesh_tp)"
        self.assertEqual(self.found(CALLS), Explanation(told, (3,)))

    def test_same_step(self) -> None:
        """Calls at one line are compared in their order, so that a loop over dimensions is not odd."""
        loop: CallsByRank = {
            0: (on(TP, 0, 1), on(DP, 0, 2, number=2)),
            1: (on(TP, 0, 1), stuck(DP, 1, 3, number=2)),
            2: (on(TP, 2, 3), on(DP, 0, 2, number=2)),
            3: (on(TP, 2, 3), stuck(TP, 2, 3, number=2)),
        }
        found = self.found(loop)
        assert found is not None
        self.assertEqual(found.ranks, (3,))
        self.assertIn("rank 3 calls all_reduce on group {2, 3} (mesh_tp)", found.text)
        self.assertIn("ranks 0-2 call it on groups {0, 2}, {1, 3} (mesh_dp)", found.text)
        self.assertIsNone(self.found({**loop, 3: (on(TP, 2, 3), stuck(DP, 1, 3, number=2))}))

    def test_nothing_to_tell(self) -> None:
        """Where nobody waits for the rank, others are no majority of one mind, or a group has no name."""
        calls = CALLS
        unnamed = replace(calls[3][0], signature=replace(calls[3][0].signature, description=""))
        elsewhere = replace(calls[3][0], place="t.py:30 in test_x")
        others: dict[str, CallsByRank] = {
            "nobody waits": {**calls, 2: (on(TP, 2, 3),)},
            "two sides": {rank: calls[rank] for rank in (2, 3)},
            "others differ": {**calls, 0: (on("mesh_pp", 0, 1),)},
            "others have no name": {**calls, 0: (on("", 0, 1),)},
            "no name": {**calls, 3: (unnamed,)},
            "another line": {**calls, 3: (elsewhere,)},
            "calls forgotten": {**calls, 0: (on(TP, 0, 1),) * ENTRIES},
        }
        for name, each in others.items():
            with self.subTest(name):
                self.assertIsNone(self.found(each))

    def test_one_group(self) -> None:
        """The rank that takes a group of some where the others, those of its group too, take one of all."""
        mine, theirs = call(members=(0, 1), group="1"), call()
        calls: CallsByRank = {0: (theirs,), 1: (mine,), 2: (theirs,), 3: (theirs,)}
        told = (
            "rank 1 calls all_reduce on group {0, 1} made at t.py:9 (t.py:20 in test_x), "
            "ranks 0, 2, 3 call it on the default group"
        )
        self.assertEqual(self.found(calls), Explanation(told, (1,)))
        others: dict[str, CallsByRank] = {
            "one of its group is elsewhere": {**calls, 0: (replace(theirs, place="t.py:30 in test_x"),)},
            "it is in none of theirs": {r: (call(members=(0, 2, 3), group="2"),) for r in (0, 2, 3)},
            "the others differ": {**calls, 3: (call(members=(2, 3), group="2"),)},
        }
        for name, each in others.items():
            with self.subTest(name):
                self.assertIsNone(self.found({1: (mine,), **each}))

    def test_many_groups(self) -> None:
        """Of many groups some are told."""
        pairs = [(n, n + 1) for n in range(0, 12, 2)]
        calls = {rank: (on(TP, *pair),) for pair in pairs for rank in pair}
        found = self.found({**calls, 10: (stuck(TP, 10, 11),), 11: (stuck(DP, 9, 11),)})
        assert found is not None
        self.assertTrue(
            found.text.endswith("on groups {0, 1}, {2, 3}, {4, 5}, {6, 7}, ... (mesh_tp)"), found.text
        )


if __name__ == "__main__":
    unittest.main()
