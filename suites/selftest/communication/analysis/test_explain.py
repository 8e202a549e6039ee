"""Tests the line about who did what differently: a table of ranks' calls, and what is said of them."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any

from harness.communication.analysis.difference_text import Explanation
from harness.communication.analysis.explain import RankState, explain
from harness.communication_call import Call
from suites.selftest.communication.samples import (
    asks,
    call,
    joins,
    leaves,
    making,
    receive,
    send,
    sets_key,
    waits_for_key,
)

DONE = call(number=1, state="ended")
NEXT = call(number=2)


def left(rank: int, *calls: Call) -> RankState:
    """A rank that has come to the end of its test."""
    return RankState(rank, calls, finished=True)


def waits(rank: int, *calls: Call) -> RankState:
    """A rank that has not."""
    return RankState(rank, calls)


class ExplainTest(unittest.TestCase):
    """The line that ``explain`` makes of calls."""

    def check(self, states: list[RankState], text: str, *ranks: int) -> None:
        """Checks the line and the ranks to blame."""
        found = explain(states)
        assert found is not None
        self.assertEqual(found, Explanation(text, ranks))

    def test_left_early(self) -> None:
        """Who has left is the cause, and not who waits."""
        self.check(
            [left(0, DONE), *(waits(r, DONE, NEXT) for r in (1, 2, 3))],
            "rank 0 left the test after all_reduce #1 of the default group; "
            "ranks 1-3 wait in all_reduce #2 (t.py:20 in test_x)",
            0,
        )

    def test_one_more(self) -> None:
        """Where most have left, the one that waits does one thing more."""
        self.check(
            [*(left(r, DONE) for r in (0, 1, 2)), waits(3, DONE, NEXT)],
            "rank 3 waits in all_reduce #2 (t.py:20 in test_x), for which nobody comes: "
            "ranks 0-2 left the test after all_reduce #1 of the default group",
            3,
        )

    def test_one_more_for_which_another_waits(self) -> None:
        """The rank that does one thing more is the cause, although another one waits for it elsewhere."""
        extra = call("barrier", 2, members=(1, 2, 3), group="1")
        done = call("barrier", 1, members=(1, 2, 3), group="1", state="ended")
        self.check(
            [left(0), left(1, done), waits(2, done, receive(3)), waits(3, done, extra)],
            "rank 3 waits in barrier #2 (t.py:20 in test_x), for which nobody comes: rank 1 left the test "
            "after barrier #1 of group {1, 2, 3} made at t.py:9; rank 2 never came to barrier #2 of "
            "group {1, 2, 3} made at t.py:9: it waits in recv from rank 3 (t.py:20 in test_x)",
            3,
        )

    def test_another_dimension_of_a_mesh(self) -> None:
        """The rank that takes another dimension's group is the cause, not the one that left after its own."""

        def on(dimension: str, members: tuple[int, ...], **fields: Any) -> Call:
            return call(members=members, group=str(members), description=f"mesh_{dimension}", **fields)

        first = [on("tp", (0, 1), state="ended"), on("tp", (2, 3), state="ended")]
        done, stuck = on("tp", (0, 1), number=2, state="ended"), on("tp", (2, 3), number=2)
        odd = on("dp", (1, 3))
        told = (
            "rank 3 calls all_reduce on group {1, 3} (mesh_dp) (t.py:20 in test_x), "
            "ranks 0-2 call it on groups {0, 1}, {2, 3} (mesh_tp)"
        )
        left_ones = [left(rank, first[0], done) for rank in (0, 1)]
        self.check([*left_ones, waits(2, first[1], stuck), waits(3, first[1], odd)], told, 3)

    def test_missed_by_most(self) -> None:
        """Of ranks that wait for each other, the one that most others miss comes first."""
        missed = call("gather", members=(0, 1, 2), group="1", root=2)
        begun = call("gather", members=(0, 1, 2), group="1", root=2, state="ended")
        self.check(
            [
                waits(0, begun, call("barrier", members=(0, 2, 3), group="2")),
                waits(1, receive(2)),
                waits(2, missed),
                waits(3, call("barrier", members=(0, 2, 3), group="2")),
            ],
            "rank 1 waits for rank 2 in recv from rank 2 (t.py:20 in test_x), and rank 2 for rank 1 in "
            "gather #1 of group {0, 1, 2} made at t.py:9 (t.py:20 in test_x); "
            "ranks 0, 3 wait in barrier #1 of group {0, 2, 3} made at t.py:9 (t.py:20 in test_x)",
            *(1, 2),
        )

    def test_groups_in_a_cycle(self) -> None:
        """Where no collective tells who is odd, all are."""
        rings = [call(members=pair, group=str(pair)) for pair in ((0, 1), (1, 2), (0, 2))]
        found = explain([waits(r, each) for r, each in enumerate(rings)])
        assert found is not None
        self.assertEqual(found.ranks, ())
        self.assertIn("ranks call groups in different orders and wait for each other: rank 0", found.text)

    def test_two_groups_in_a_cycle(self) -> None:
        """Of two ranks that wait in two groups either may have changed the order, whoever else waits."""
        members = (0, 1, 3)
        found = explain(
            [
                waits(0, call(members=members, group="1")),
                waits(1, call("broadcast", members=(0, 1), group="2", root=0)),
                left(2),
                waits(3, call(members=members, group="1", state="begun", own_work=True)),
            ]
        )
        assert found is not None
        self.assertEqual(found.ranks, ())
        self.assertIn("rank 0 calls all_reduce", found.text)
        self.assertIn("rank 1 calls broadcast", found.text)

    def test_a_message_that_comes_later(self) -> None:
        """A rank that is held up may still send the message, although another one of its is on its way."""
        pair = call("barrier", members=(2, 3), group="1")
        sent = send(1, 6, state="begun", own_work=True)
        for blamed, ranks in (
            ((3, 2), [left(0), waits(1, receive(3, 11)), waits(2, waits_for_key()), waits(3, sent, pair)]),
            ((3, 1), [left(0), waits(1, receive(3, 11)), left(2), waits(3, sent)]),
        ):
            found = explain(ranks)
            assert found is not None
            with self.subTest(found.text):
                self.assertEqual(
                    "with tag 11 (t.py:20 in test_x), and rank 3" in found.text, blamed == (3, 1)
                )

    def test_both_sides_first(self) -> None:
        """Where two ranks wait for each other, those that merely wait for them come last."""
        pair = call("barrier", members=(2, 3), group="1")
        found = explain(
            [waits(0, send(3)), waits(1, receive(3)), waits(2, waits_for_key("9/3")), waits(3, pair)]
        )
        assert found is not None
        self.assertTrue(found.text.startswith("rank 2 waits in store.get('9/3')"), found.text)
        self.assertIn("; rank 3 waits in barrier #1 of group {2, 3} made at t.py:9", found.text)
        self.assertEqual(found.ranks, ())

    def test_key_of_one_that_waits_elsewhere(self) -> None:
        """The cause is the rank that does one thing more, not the one that waits for its key."""
        one = call(members=(0, 1, 3), group="1")
        extra = call(number=2, members=(0, 1, 2), group="2")
        states = [waits(0, waits_for_key("1/2")), *(waits(r, sets_key(f"1/{r}"), one) for r in (1, 3))]
        found = explain([*states, waits(2, extra)])
        assert found is not None
        self.assertEqual(found.ranks, (2,))
        self.assertIn(
            "store.get('1/2') (t.py:20 in test_x), where the key that names rank 2 is not set", found.text
        )

    def test_key_misspelt(self) -> None:
        """Of two ranks the one comes first that waits for what the other sets under nearly the same name."""
        self.check(
            [waits(0, sets_key("epoch"), call("barrier", members=(0, 1))), waits(1, waits_for_key("epochs"))],
            "rank 1 waits in store.get('epochs') (t.py:20 in test_x): it is 'epochs', and rank 0 sets "
            "'epoch' (t.py:20 in test_x); rank 0 waits in barrier #1 of the default group "
            "(t.py:20 in test_x)",
        )

    def test_one_more_before(self) -> None:
        """A call that met one of the others' is told behind the one that met none."""
        own = call(number=1, state="ended", place="t.py:30 in evaluate")
        states = [waits(0, own, replace(DONE, sequence=2, number=2), call(number=3))]
        states += [left(rank, DONE, replace(DONE, sequence=2, number=2)) for rank in (1, 2, 3)]
        found = explain(states)
        assert found is not None
        self.assertEqual(found.ranks, (0,))
        self.assertTrue(
            found.text.endswith(
                "after all_reduce #2 of the default group; before that rank 0 alone called all_reduce #1 "
                "(t.py:30 in evaluate)"
            ),
            found.text,
        )

    def test_key_of_one_that_left(self) -> None:
        """The cause is the rank that has left without setting its key, as its peers have set theirs."""
        one = call(members=(0, 1, 3), group="1")
        states = [waits(0, waits_for_key("1/2")), *(waits(r, sets_key(f"1/{r}"), one) for r in (1, 3))]
        self.check(
            [*states, left(2)],
            "rank 2 left the test and never set what rank 0 waits for; "
            "rank 0 waits in store.get('1/2') (t.py:20 in test_x); "
            "ranks 1, 3 wait in all_reduce #1 of group {0, 1, 3} made at t.py:9 (t.py:20 in test_x)",
            2,
        )

    def test_key_of_one_that_forgot_it(self) -> None:
        """The cause is the rank that waits with its peers, but has not set its key before as they have."""
        barrier = call("barrier", 2)
        others = [waits(r, sets_key(f"1/{r}"), barrier) for r in (1, 3)]
        keys = waits_for_key("1/1, 1/2, 1/3")
        self.check(
            [waits(0, keys), others[0], waits(2, barrier), others[1]],
            "rank 2 waits in barrier #2 (t.py:20 in test_x) and never set what rank 0 waits for; "
            "rank 0 waits in store.get('1/1, 1/2, 1/3') (t.py:20 in test_x); "
            "ranks 1, 3 wait in barrier #2 (t.py:20 in test_x)",
            2,
        )

    def test_several_groups(self) -> None:
        """Groups that not all of the ranks are in were not called in different orders."""
        self.check(
            [
                waits(0, call(members=(0, 3), group="1")),
                waits(1, call(members=(1, 3), group="2")),
                waits(2, call(members=(2, 3), group="3")),
                waits(3, NEXT),
            ],
            "rank 3 never came to all_reduce #1 of group {0, 3} made at t.py:9: it waits in all_reduce #2 of "
            "the default group (t.py:20 in test_x); rank 0 waits in all_reduce #1 (t.py:20 in test_x); "
            "rank 1 waits in all_reduce #1 of group {1, 3} made at t.py:9 (t.py:20 in test_x); "
            "rank 2 waits in all_reduce #1 of group {2, 3} made at t.py:9 (t.py:20 in test_x)",
            3,
        )

    def test_does_not_come(self) -> None:
        """Who is elsewhere is the cause, with the place."""
        self.check(
            [RankState(0, [DONE], at="t.py:38 in step"), *(waits(r, DONE, NEXT) for r in (1, 2, 3))],
            "rank 0 never came to all_reduce #2: it is at t.py:38 in step; "
            "ranks 1-3 wait in all_reduce #2 (t.py:20 in test_x)",
            0,
        )

    def test_waits_for_its_turn(self) -> None:
        """A rank thread that another one kept from running is not to blame, unless nobody else is."""
        other, runs = RankState(0, [DONE], awaits_turn=True), RankState(1, [DONE], at="t.py:38 in step")
        rest = [waits(r, DONE, NEXT) for r in (2, 3)]
        waiting = "ranks 2, 3 wait in all_reduce #2 (t.py:20 in test_x)"
        at = "rank 1 never came to all_reduce #2: it is at t.py:38 in step"
        self.check([other, runs, *rest], f"{at}; {waiting}", 1)
        done = waits(1, DONE, NEXT)
        alone = "rank 0 never came to all_reduce #2; ranks 1-3 wait in all_reduce #2 (t.py:20 in test_x)"
        self.check([other, done, *rest], alone, 0)

    def test_gone(self) -> None:
        """Who has died is the cause."""
        states = [RankState(0, [DONE], gone="crashed with exit code 3"), waits(1, DONE, NEXT)]
        found = explain([*states, waits(2, DONE, NEXT), waits(3, DONE, NEXT)])
        assert found is not None
        self.assertTrue(found.text.startswith("rank 0 crashed with exit code 3 after all_reduce #1"), found)

    def test_cycle(self) -> None:
        """A cycle of messages has nobody to blame."""
        self.check(
            [waits(r, receive((r + 1) % 3, members=(0, 1, 2))) for r in range(3)],
            "ranks 0 -> 1 -> 2 -> 0 wait for each other in recv (t.py:20 in test_x)",
        )

    def test_tags(self) -> None:
        """A message with another tag is told with both places."""
        self.check(
            [waits(0, send(1, 3, members=(0, 1))), waits(1, receive(0, 4, members=(0, 1)))],
            "rank 1 waits for a message of rank 0 with tag 4 (t.py:20 in test_x), and rank 0 sends it one "
            "with tag 3 (t.py:20 in test_x)",
            0,
            1,
        )

    def test_another_call_behind_a_group(self) -> None:
        """One collective that differs is the cause, also where a rank of another group is in the cycle."""
        later: dict[str, Any] = {"number": 2, "root": 3}
        other = call("broadcast", **later)
        held = call("broadcast", state="begun", own_work=True, **later)
        behind = call("all_to_all_single", members=(1, 2, 3), group="1")
        states = [
            left(0, call("broadcast", state="ended", **later)),
            waits(1, call("all_reduce", number=2)),
            waits(2, held, behind),
            waits(3, other),
        ]
        found = explain(states)
        assert found is not None
        self.assertEqual(found.ranks, (1,))
        self.assertIn("rank 1 calls all_reduce #2 (", found.text)

    def test_crossed_groups(self) -> None:
        """Groups in another order: the odd rank, and what each side calls first."""
        a: dict[str, Any] = {"members": (0, 1, 2), "group": "1"}
        b: dict[str, Any] = {"members": (0, 1, 2), "group": "2"}
        found = explain([waits(0, call(**a)), waits(1, call(**a)), waits(2, call(**b))])
        assert found is not None
        self.assertEqual(found.ranks, (2,))
        self.assertIn(
            "rank 2 calls all_reduce on groups {0, 1, 2} made at t.py:9, {0, 1, 2} made at", found.text
        )

    def test_cycle_over_three_groups(self) -> None:
        """In a cycle over three groups the rank is blamed that alone makes a call of its group again."""
        pairs = [call(members=each, group=str(each)) for each in ((0, 1), (1, 2))]
        found = explain([waits(0, pairs[0]), waits(1, pairs[1]), waits(2, call(members=(0, 1, 2)))])
        assert found is not None
        self.assertEqual(found.ranks, (2,))
        self.assertIn("rank 2 waits in all_reduce #1 (t.py:20 in test_x), for which nobody comes", found.text)

    def test_group_made_by_some(self) -> None:
        """The ranks that did not come to make a group are named."""
        self.check(
            [waits(0, making(1, (0, 1))), left(1)],
            "rank 1 left the test; rank 0 waits in new_group (t.py:20 in test_x)",
            1,
        )

    def test_groups_in_other_orders(self) -> None:
        """Ranks that make other groups at one place are told both."""
        found = explain(
            [waits(0, making(1, (0, 1))), waits(1, making(1, (0, 1, 2))), waits(2, making(1, (0, 1, 2)))]
        )
        assert found is not None
        self.assertEqual(found.ranks, (0,))
        self.assertIn("rank 0 makes group {0, 1}", found.text)

    def test_key(self) -> None:
        """A key that nobody sets has its waiting rank."""
        self.check(
            [waits(0, waits_for_key()), left(1)],
            "rank 0 waits in store.get('key') (t.py:20 in test_x), for a key that nobody has set, "
            "and nobody is left to set it",
            0,
        )

    def test_key_of_a_rank_that_goes_on(self) -> None:
        """The rank that may still set the key is the cause, also one whose stack could not be had."""
        for at, where in (("t.py:3 in f", "is at t.py:3 in f"), ("", "gave no stack")):
            self.check(
                [waits(0, waits_for_key()), RankState(1, at=at)],
                f"rank 1 {where}; rank 0 waits in store.get('key') (t.py:20 in test_x), "
                "for a key that nobody has set",
                1,
            )

    def test_workers_of_rpc(self) -> None:
        """Who has left without a shutdown is the cause; and of a barrier against shutdowns both are said."""
        joined = [joins(f"w{rank}", 3, state="ended") for rank in range(3)]
        end = leaves("w", 3)
        self.check(
            [left(0), *(waits(rank, joins(f"w{rank}", 3)) for rank in (1, 2))],
            "rank 0 left the test; ranks 1, 2 wait in init_rpc (t.py:20 in test_x)",
            0,
        )
        self.check(
            [waits(0, joined[0], end), waits(1, joined[1], end), left(2, joined[2])],
            "rank 2 left the test after init_rpc; ranks 0, 1 wait in rpc.shutdown (t.py:20 in test_x)",
            2,
        )
        barrier = call("barrier", members=(0, 1, 2))
        self.check(
            [waits(0, joined[0], end), waits(1, joined[1], end), waits(2, joined[2], barrier)],
            "rank 2 waits in barrier #1 (t.py:20 in test_x), for which nobody comes: "
            "ranks 0, 1 never came to barrier #1: they wait in rpc.shutdown (t.py:20 in test_x)",
            2,
        )

    def test_a_barrier_against_a_shutdown(self) -> None:
        """Of two ranks both are said, and neither is the cause."""
        states = [waits(0, joins("w0", 2, state="ended"), leaves("w0", 2))]
        states.append(waits(1, joins("w1", 2, state="ended"), call("barrier", members=(0, 1))))
        self.check(
            states,
            "rank 0 waits in rpc.shutdown (t.py:20 in test_x); "
            "rank 1 waits in barrier #1 of the default group (t.py:20 in test_x)",
        )

    def test_answers_of_rpc(self) -> None:
        """A rank that waits for an answer is not held up by what the one asked waits for, but by its end."""
        joined = [joins(f"w{rank}", 3, state="ended") for rank in range(3)]
        asking = waits(0, joined[0], asks("w1"))
        self.check(
            [asking, *(waits(rank, joined[rank], leaves("w", 3)) for rank in (1, 2))],
            "rank 0 never came to rpc.shutdown: it waits in rpc_sync to w1 (t.py:20 in test_x); "
            "ranks 1, 2 wait in rpc.shutdown (t.py:20 in test_x)",
            0,
        )
        self.check(
            [asking, left(1, joined[1]), left(2)],
            "rank 1 left the test after init_rpc; rank 0 waits in rpc_sync to w1 (t.py:20 in test_x)",
            1,
        )
        elsewhere = RankState(1, (joined[1],), at="t.py:30 in serve")
        self.check(
            [asking, elsewhere, left(2)],
            "rank 1 has not answered: it is at t.py:30 in serve; rank 0 waits in rpc_sync to w1 "
            "(t.py:20 in test_x)",
            1,
        )

    def test_answers_of_each_other(self) -> None:
        """At the deadline, where all that are left wait for answers, nobody is the cause."""
        joined = [joins(f"w{rank}", 3, state="ended") for rank in range(2)]
        states = [waits(0, joined[0], asks("w1")), waits(1, joined[1], asks("w0", "to_here")), left(2)]
        self.assertIsNone(explain(states))
        text = (
            "rank 0 waits in rpc_sync to w1 (t.py:20 in test_x); "
            "rank 1 waits in to_here from w0 (t.py:20 in test_x)"
        )
        self.assertEqual(explain(states, over=True), Explanation(text, ()))
        self.assertIsNone(explain([*states, waits(3)], over=True))

    def test_nothing_to_say(self) -> None:
        """Ranks that wait for nobody give no line."""
        self.assertIsNone(explain([left(0), left(1)]))
        self.assertIsNone(explain([RankState(0, at="t.py:3 in f"), RankState(1)]))
        self.assertIsNone(explain([waits(r, NEXT) for r in range(4)]))


if __name__ == "__main__":
    unittest.main()
