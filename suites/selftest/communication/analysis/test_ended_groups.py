"""Tests what is said of ranks that have destroyed a group in which others wait: tables of calls."""

from __future__ import annotations

import unittest

from harness.communication.analysis.difference_text import Explanation
from harness.communication.analysis.ended_groups import ended_group
from harness.communication.analysis.wait_graph import RankView, waits_now
from harness.communication_call import Call, Kind
from suites.selftest.communication.samples import call

ALL = (0, 1, 2)
WAITS = call(number=2, members=ALL)
ENDS = call("destroy_process_group", kind=Kind.ENDING, members=ALL, state="ended", place="t.py:30 in f")


class EndedGroupTest(unittest.TestCase):
    """What ``ended_group`` says of three ranks."""

    def found(self, *calls: list[Call], left: tuple[int, ...] = ()) -> Explanation | None:
        """What is said of ranks with these calls."""
        by_rank = dict(enumerate(calls))
        stuck = waits_now([RankView(rank, mine, settled=rank in left) for rank, mine in by_rank.items()])
        return ended_group(by_rank, stuck, set(by_rank) - set(left))

    def test_destroyed(self) -> None:
        """Who destroys a group and goes on elsewhere is the cause, be it that it waits there."""
        told = (
            "rank 1 destroyed the default group (t.py:30 in f) and never came to all_reduce #2; "
            "ranks 0, 2 wait in all_reduce #2 (t.py:20 in test_x)"
        )
        self.assertEqual(self.found([WAITS], [ENDS], [WAITS]), Explanation(told, (1,)))
        elsewhere = call("barrier", members=ALL, group="1")
        found = self.found([WAITS], [ENDS, elsewhere], [WAITS])
        assert found is not None
        self.assertEqual(found.ranks, (1,))
        self.assertIn("rank 1 waits in barrier #1 of group {0, 1, 2} made at t.py:9", found.text)

    def test_nothing_to_tell(self) -> None:
        """Where it has left, most have destroyed the group, or it was another one."""
        other = call("destroy_process_group", kind=Kind.ENDING, members=ALL, group="1", state="ended")
        self.assertIsNone(self.found([WAITS], [ENDS], [WAITS], left=(1,)))
        self.assertIsNone(self.found([WAITS], [ENDS], [ENDS]))
        self.assertIsNone(self.found([WAITS], [other], [WAITS]))
        self.assertIsNone(self.found([WAITS], [], [WAITS]))


if __name__ == "__main__":
    unittest.main()
