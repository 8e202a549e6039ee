"""Tests who is odd where ranks miss each other in collectives: a table of ranks that wait."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.communication.analysis.missing_ranks import decisive, in_a_cycle, missing_ranks, undecided
from harness.communication.analysis.wait_graph import RankView, Waiting
from harness.communication_call import Call
from suites.selftest.communication.samples import call, receive, waits_for_key

DONE = call(number=1, state="ended")
NEXT = call(number=2)
PAIR = call("barrier", members=(0, 1), group="1")


def waiting(*each: tuple[int, Call, tuple[int, ...]]) -> dict[int, Waiting]:
    """Ranks that wait: rank, call, for whom."""
    return {rank: Waiting(rank, of, ranks) for rank, of, ranks in each}


class DecisiveTest(unittest.TestCase):
    """Ranks that would free all others."""

    def test_table(self) -> None:
        """By who waits for whom."""
        rows: tuple[tuple[str, dict[int, Waiting], list[int]], ...] = (
            ("one has left", waiting((1, NEXT, (0,)), (2, NEXT, (0,))), [0]),
            ("two have left", waiting((2, NEXT, (0, 1)), (3, NEXT, (0, 1))), []),
            ("one does more", waiting((3, NEXT, (0, 1, 2))), [3]),
            ("one waits for the other", waiting((1, PAIR, (0,))), [0, 1]),
            (
                "a cycle",
                waiting((0, receive(1), (1,)), (1, receive(2), (2,)), (2, receive(0), (0,))),
                [0, 1, 2],
            ),
            ("from any source", waiting((0, receive(None), (1, 2))), [0, 1, 2]),
            ("a key", waiting((0, waits_for_key(), (1, 2))), [0, 1, 2]),
            ("a key that one may set", waiting((0, waits_for_key(), (1, 2)), (1, PAIR, (0,))), [0, 1]),
            (
                "a key that two may set",
                waiting((0, waits_for_key(), (1, 2)), (1, PAIR, (0,)), (2, receive(0), (0,))),
                [0],
            ),
            ("held up by the next", waiting((0, PAIR, (1,)), (1, NEXT, (2, 3)), (2, PAIR, (1,))), [1]),
        )
        for name, each, expected in rows:
            with self.subTest(name):
                self.assertEqual(decisive(each), expected)


class InACycleTest(unittest.TestCase):
    """Ranks that wait for themselves."""

    def test_a_victim(self) -> None:
        """One that waits for a rank of the cycle is not in it."""
        each = waiting((0, receive(1), (1,)), (1, receive(0), (0,)), (2, receive(1), (1,)))
        self.assertEqual(in_a_cycle(each), [0, 1])


class UndecidedTest(unittest.TestCase):
    """``undecided``: of four ranks some are stuck, and others may still come."""

    def test_table(self) -> None:
        """By what each rank calls, "" for one that may still come, and "left" for one that has left."""
        rows: tuple[tuple[str, tuple[str, ...], bool], ...] = (
            ("two calls, and two may come", ("all_reduce", "barrier", "", ""), True),
            ("two of one, and one may come", ("all_reduce", "barrier", "", "all_reduce"), True),
            ("three of one", ("all_reduce", "barrier", "all_reduce", "all_reduce"), False),
            ("one left early, or one calls more", ("barrier", "left", "", ""), True),
            ("two of either, and nobody comes", ("barrier", "left", "left", "barrier"), False),
            ("most have left", ("barrier", "left", "left", "left"), False),
            ("most have left, whoever comes", ("barrier", "left", "left", ""), True),
            ("most wait, whoever comes", ("barrier", "barrier", "barrier", "left"), False),
        )
        for name, each, expected in rows:
            with self.subTest(name):
                calls = {r: call(what, 1) for r, what in enumerate(each) if what not in ("", "left")}
                views = [
                    RankView(r, [calls[r]] if r in calls else [], settled=what == "left")
                    for r, what in enumerate(each)
                ]
                stuck = [Waiting(r, of, ()) for r, of in calls.items()]
                self.assertIs(undecided(views, stuck), expected)

    def test_other_collectives(self) -> None:
        """Ranks outside of the group decide nothing, nor collectives in which nobody is stuck."""
        done = call("barrier", state="ended")
        views = [RankView(0, [done, PAIR]), RankView(1, [done], settled=True), RankView(2), RankView(3)]
        self.assertIs(undecided(views, [Waiting(0, PAIR, (1,))]), False)


class AbsenceTest(unittest.TestCase):
    """The collective that decides."""

    def odd(
        self, calls: dict[int, list[Call]], each: dict[int, Waiting], *left: int
    ) -> tuple[int, ...] | None:
        """The odd ranks."""
        found = missing_ranks(calls, each, left)
        return None if found is None else found.odd

    def test_missing(self) -> None:
        """A minority that does not come is odd."""
        calls = {r: [DONE, NEXT] for r in (1, 2, 3)}
        self.assertEqual(self.odd({0: [DONE], **calls}, waiting(*((r, NEXT, (0,)) for r in calls)), 0), (0,))

    def test_superfluous(self) -> None:
        """A minority that nobody joins is odd."""
        calls = {0: [DONE], 1: [DONE], 2: [DONE], 3: [DONE, NEXT]}
        self.assertEqual(self.odd(calls, waiting((3, NEXT, (0, 1, 2))), 0, 1, 2), (3,))

    def test_two_collectives(self) -> None:
        """Of collectives that tell it otherwise the surer one counts, and none where they are as sure."""
        one, other = (call(members=each, group=str(each)) for each in ((0, 2, 3), (1, 2, 3)))
        crossed = waiting((0, one, (3,)), (1, other, (2,)), (2, one, (3,)), (3, other, (2,)))
        calls = {rank: [each.call] for rank, each in crossed.items()}
        self.assertIsNone(self.odd(calls, crossed))
        wider = replace(one, signature=replace(one.signature, members=(0, 2, 3, 4)))
        calls = {0: [wider], 1: [other], 2: [wider], 3: [other], 4: [wider]}
        more = {r: replace(each, call=calls[r][0]) for r, each in crossed.items()}
        self.assertEqual(self.odd(calls, {**more, 4: Waiting(4, wider, (3,))}), (3,))

    def test_waits_for_a_key(self) -> None:
        """A rank that waits for a key is not odd where one waits elsewhere that could set it."""
        one = call(members=(0, 1, 3), group="1")
        extra = call(number=2, members=(0, 1, 2), group="2")
        for held_up, odd in ((waits_for_key(), (2,)), (receive(2), None)):
            each = waiting((0, held_up, (2,)), (1, one, (0,)), (2, extra, (0, 1)), (3, one, (0,)))
            calls = {rank: [mine.call] for rank, mine in each.items()}
            with self.subTest(str(held_up)):
                self.assertEqual(self.odd(calls, each), odd)

    def test_order_as_others(self) -> None:
        """Of two ranks that miss a collective the one is not odd that made its call in another's order."""
        one, two, three = (
            call(members=each, group=str(each), at=at)
            for at, each in enumerate(((0, 2, 3), (0, 1, 2), (1, 3)))
        )
        done = replace(one, ended_s=one.started_s)
        each = waiting((0, one, (3,)), (1, two, (0,)), (2, two, (0,)), (3, three, (1,)))
        calls = {0: [one], 1: [two], 2: [done, two], 3: [three]}
        self.assertEqual(self.odd(calls, each), (3,))

    def test_order_against_others(self) -> None:
        """Of two ranks that miss a collective the one is odd that made its call against another's order."""
        one, two, three = (
            call(members=each, group=str(each), at=at)
            for at, each in enumerate(((1, 2, 3), (0, 1, 3), (0, 2)))
        )
        done = replace(one, ended_s=one.started_s)
        each = waiting((0, three, (2,)), (1, two, (0,)), (2, one, (3,)), (3, two, (0,)))
        calls = {0: [three], 1: [done, two], 2: [one], 3: [two]}
        self.assertEqual(self.odd(calls, each), (3,))

    def test_as_many(self) -> None:
        """Of two sides with as many ranks none is odd."""
        calls = {0: [DONE], 1: [DONE], 2: [DONE, NEXT], 3: [DONE, NEXT]}
        each = waiting((2, NEXT, (0, 1)), (3, NEXT, (0, 1)))
        self.assertIsNone(self.odd(calls, each, 0, 1))

    def test_elsewhere(self) -> None:
        """A rank that is held up by others, or runs, says nothing of this collective."""
        calls = {0: [DONE, receive(1)], 1: [DONE], 2: [DONE, NEXT], 3: [DONE, NEXT]}
        each = waiting((0, calls[0][1], (1,)), (2, NEXT, (0, 1)), (3, NEXT, (0, 1)))
        self.assertIsNone(self.odd(calls, each, 1))
        self.assertIsNone(self.odd({r: [NEXT] for r in (1, 2, 3)}, waiting((1, NEXT, (0,)))))


if __name__ == "__main__":
    unittest.main()
