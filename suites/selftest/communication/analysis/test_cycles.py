"""Tests what is said of ranks that wait for each other."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from harness.communication.analysis.cycles import crossed_groups, cycle, groups_in_a_cycle, mutual
from harness.communication.analysis.difference_text import Explanation
from harness.communication.analysis.missing_ranks import missing_ranks
from harness.communication.analysis.wait_graph import RankView, Waiting, prove
from harness.communication_call import Call
from suites.selftest.communication.samples import call, receive, send

HERE = "(t.py:20 in test_x)"
BARRIER = call("barrier", members=(0, 1, 2))


def waiting(*calls: Sequence[Call]) -> dict[int, Waiting]:
    """The stuck ranks of which these are the calls, by number."""
    views = [RankView(rank, mine) for rank, mine in enumerate(calls)]
    return {each.rank: each for each in prove(views, until_s=0.0)}


class CyclesTest(unittest.TestCase):
    """Cycles over messages and over groups."""

    def test_cycle(self) -> None:
        """Each rank waits for a message of the next; over a collective there is no such cycle."""
        ring = [[receive((rank + 1) % 3, members=(0, 1, 2))] for rank in range(3)]
        self.assertEqual(
            cycle(dict(enumerate(ring)), waiting(*ring)),
            Explanation(f"ranks 0 -> 1 -> 2 -> 0 wait for each other in recv {HERE}"),
        )
        self.assertIsNone(cycle({}, waiting(*ring[:2], [BARRIER])))

    def test_loops_of_different_lengths(self) -> None:
        """How many messages each had is said: rank 1 has two of each kind, where the others have three."""
        three: dict[str, Any] = {"members": (0, 1, 2)}
        sends, receives = send(1, state="ended", **three), receive(0, state="ended", **three)
        on, next_one = send(2, state="ended", **three), receive(1, state="ended", **three)
        first = [sends, sends, send(1, state="begun", **three), receive(1, **three)]
        middle = [receives, on, receives, on, receive(2, **three)]
        last = [next_one, next_one, receive(1, **three)]
        calls = [first, middle, last]
        text = (
            f"ranks 1 -> 2 -> 1 wait for each other in recv {HERE}: rank 0 sends 3 messages to rank 1, which "
            "receives 2; rank 1 sends 2 messages to rank 2, which receives 3"
        )
        self.assertEqual(cycle(dict(enumerate(calls)), waiting(*calls)), Explanation(text))

    def test_crossed_groups(self) -> None:
        """Two groups in different orders; one group is not crossed with itself."""
        one, other = (call(members=(0, 1, 2), group=group) for group in "12")
        stuck = waiting([one], [one], [other])
        found = crossed_groups({0: [one], 1: [one], 2: [other]}, stuck)
        assert found is not None
        self.assertEqual((found.ranks, groups_in_a_cycle(stuck)), ((2,), 2))
        self.assertIsNone(crossed_groups({0: [one], 1: [one], 2: []}, waiting([one], [one], [])))

    def test_other_tensors(self) -> None:
        """Groups are not crossed where a rank gave other tensors to one of the calls, and went on."""
        one, other = (call(members=(0, 1, 2), group=group) for group in "12")
        more = call(members=(0, 1, 2), group="2", agreed="3 x float32", state="ended")
        self.assertIsNone(
            crossed_groups({0: [more, one], 1: [one], 2: [other]}, waiting([one], [one], [other]))
        )


class MutualTest(unittest.TestCase):
    """``mutual``: two ranks that wait for each other, of which either may be odd."""

    def found(self, *calls: Sequence[Call]) -> Explanation | None:
        """What is said of ranks with these calls."""
        by_rank, stuck = dict(enumerate(calls)), waiting(*calls)
        missed = missing_ranks(by_rank, stuck, ())
        assert missed is not None
        return mutual(by_rank, stuck, missed)

    def test_message_against_collective(self) -> None:
        """The rank that turned off from the way of the others comes first."""
        three: dict[str, Any] = {"members": (0, 1, 2)}
        sends, sent = send(0, **three), send(0, state="ended", **three)
        to_1, to_2 = (send(rank, state="ended", **three) for rank in (1, 2))
        from_0, from_1, from_2 = (receive(rank, state="ended", **three) for rank in range(3))
        barrier, message = f"in barrier #1 {HERE}", f"in send to rank 0 {HERE}"
        rest = f"; rank 1 waits in barrier #1 {HERE}"
        rows: dict[str, tuple[list[list[Call]], str, tuple[int, ...]]] = {
            "rank 0 leaves its receive out": (
                [[to_1, BARRIER], [to_2, from_0, BARRIER], [sends, from_1]],
                f"rank 0 waits for rank 2 {barrier}, and rank 2 for rank 0 {message}{rest}",
                (0, 2),
            ),
            "rank 2 sends one more": (
                [[to_1, from_2, BARRIER], [to_2, from_0, BARRIER], [sent, from_1, sends]],
                f"rank 2 waits for rank 0 {message}, and rank 0 for rank 2 {barrier}{rest}",
                (2, 0),
            ),
        }
        for name, (calls, text, ranks) in rows.items():
            with self.subTest(name):
                self.assertEqual(self.found(*calls), Explanation(text, ranks))

    def test_disputed(self) -> None:
        """Collectives of which one tells that a rank is odd, and another one that another is."""
        many, pair = call(members=(0, 1, 2), group="1"), call(members=(2, 3), group="2")
        barrier = call("barrier")
        found = self.found([many], [many], [pair], [barrier])
        assert found is not None
        self.assertEqual(found.ranks, (3, 2))
        self.assertIn("and rank 2 for rank 3 in all_reduce #1 of group {2, 3} made at t.py:9", found.text)

    def test_open_no_more(self) -> None:
        """A rank that waits in another collective, which no other one disputes, is odd."""
        other = call("barrier", members=(1, 2), group="1")
        self.assertIsNone(self.found([BARRIER], [BARRIER], [other]))


if __name__ == "__main__":
    unittest.main()
