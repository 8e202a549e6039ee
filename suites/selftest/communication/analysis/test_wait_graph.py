"""Tests the proof that ranks can never go on: tables of what ranks wait for, and what holds for any."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from harness.communication.analysis.wait_graph import RankView, prove
from harness.communication_call import Call, Kind, Signature
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
from suites.selftest.properties import given

UNTIL_S = 100.0


def stuck(*ranks: RankView | Sequence[Call]) -> list[int]:
    """The ranks that can never go on; a rank given by its calls alone runs on and cannot move."""
    views = [r if isinstance(r, RankView) else RankView(0, r) for r in ranks]
    numbered = [replace(view, rank=rank) for rank, view in enumerate(views)]
    return [waiting.rank for waiting in prove(numbered, UNTIL_S)]


def left(*calls: Call) -> RankView:
    """A rank that has come to the end of its test."""
    return RankView(0, calls, settled=True)


def busy(*calls: Call) -> RankView:
    """A rank that runs something else."""
    return RankView(0, calls, can_move=True)


DONE = call(state="ended")


def helped(*calls: Call) -> RankView:
    """A rank that has started processes."""
    return RankView(0, calls, helped=True)


class CollectiveTest(unittest.TestCase):
    """Ranks that wait in collectives."""

    def test_table(self) -> None:
        """Each row: the ranks, and who of them is stuck."""
        second = call(number=2)
        table: dict[str, tuple[list[Any], list[int]]] = {
            "all have begun it": ([[second]] * 4, []),
            "one has left": ([left(DONE), [second], [second], [second]], [1, 2, 3]),
            "one is busy": ([busy(DONE), [second], [second], [second]], []),
            "one that waits elsewhere for nobody of them": ([[waits_for_key()], [DONE], left(), left()], []),
            "of three that wait, one is needed by a busy one": ([[second], busy(), [second], [second]], []),
            "all wait in other collectives": (
                [[call("barrier", 1)], [call("barrier", 1)], [call("broadcast", 1, root=0)], [call()]],
                [0, 1, 2, 3],
            ),
            "other roots": ([[call("broadcast", root=0)]] * 3 + [[call("broadcast", root=1)]], [0, 1, 2, 3]),
            "other sizes": (
                [[call(agreed="2 x float32")]] * 3 + [[call(agreed="3 x float32")]],
                [0, 1, 2, 3],
            ),
            "a member that does not exist here": ([[call(members=(0, 9))], left(), left(), left()], []),
            "unknown members": ([[call(members=())], left(), left(), left()], []),
            "gives up before the deadline": ([[call(timeout_s=50.0)], left(), left(), left()], []),
            "gives up after the deadline": ([[call(timeout_s=500.0)], left(), left(), left()], [0]),
            "waits with a timeout of its own": ([[call(bounded=True)], left(), left(), left()], []),
            "another thread may serve it": ([[call(threads=2)], left(), left(), left()], []),
            "begun and not waited for": ([[call(state="begun", own_work=True)], left(), left(), left()], []),
        }
        for name, (ranks, expected) in table.items():
            with self.subTest(name):
                self.assertEqual(stuck(*ranks), expected)

    def test_several_at_once(self) -> None:
        """A rank that began to wait for several calls at one moment needs each of them."""
        first, second = (call(members=(0, 1), group=group) for group in "12")
        later = call(number=2, members=(0, 1), group="2")
        self.assertEqual(stuck([first, second], left(second)), [0])
        self.assertEqual(stuck([first, second], left(first)), [0])
        self.assertEqual(stuck([first, second], left(first, second)), [])
        self.assertEqual(stuck([first, later], left(later)), [], "it waits for the later one alone")

    def test_behind_a_difference(self) -> None:
        """What all have begun is under way, unless a call before it holds up the group, and nobody runs."""
        for state, reduce_op, runs, expected in (
            ("begun", "MAX", False, [0, 1]),
            ("begun", "SUM", False, []),
            ("ended", "MAX", False, []),
            ("begun", "MAX", True, []),
        ):
            one, other = (
                [
                    call(state=state, reduce_op=op, own_work=True, members=(0, 1)),
                    call("barrier", 2, members=(0, 1)),
                ]
                for op in ("SUM", reduce_op)
            )
            with self.subTest(state=state, reduce_op=reduce_op, runs=runs):
                self.assertEqual(stuck(one, busy(*other) if runs else other), expected)

    def test_group_made_apart(self) -> None:
        """Ranks that made groups of other members under one name meet others than they believe."""
        pairs = [(0, 1), (0, 1), (2, 3), (2, 3)]
        made = [making(1, pair, state="ended") for pair in pairs]
        calls = [[m, call(group="1", members=pair)] for m, pair in zip(made, pairs, strict=True)]
        ended = call(group="1", members=(2, 3), state="ended")
        self.assertEqual(stuck(*calls[:3], left(made[3], ended)), [0, 1, 2])
        alike = [[making(2, pair, state="ended"), call(group="2", members=pair)] for pair in [(0, 1)] * 2]
        self.assertEqual(stuck(*alike, left(), left()), [])

    def test_roots(self) -> None:
        """Who is not the root needs the root; the root of what it collects needs all."""
        rows: tuple[tuple[str, int, str, list[int]], ...] = (
            # operation, root, what ranks 0 to 3 do (w: they wait, l: they have left, b: they are busy), stuck
            ("broadcast", 1, "wwbw", []),
            ("broadcast", 0, "lwww", [1, 2, 3]),
            ("broadcast", 0, "bwww", []),
            ("scatter", 0, "lwww", [1, 2, 3]),
            ("gather", 0, "wlbw", [0]),  # rank 3 may have sent its part
            ("gather", 0, "lwww", [1, 2, 3]),
            ("reduce", 2, "wlwb", [2]),
        )
        for operation, root, doing, expected in rows:
            with self.subTest(operation=operation, root=root, doing=doing):
                does: dict[str, Any] = {"w": [call(operation, root=root)], "l": left(), "b": busy()}
                self.assertEqual(stuck(*(does[letter] for letter in doing)), expected)

    def test_sub_groups(self) -> None:
        """A rank outside of a group is nobody's hope."""
        inner = call(members=(0, 1), group="1")
        self.assertEqual(stuck([inner], left(), busy(), busy()), [0])
        self.assertEqual(stuck([inner], busy(), left(), left()), [])

    def test_crossed(self) -> None:
        """Two groups with the same members, called in other orders."""
        a, b = call(members=(0, 1), group="1"), call(members=(0, 1), group="2")
        self.assertEqual(stuck([a], [b], left(), left()), [0, 1])

    def test_backward(self) -> None:
        """A backward pass waits for what it has started in C++, and for nothing before it."""
        backward = Call(Signature("backward", kind=Kind.IN_CPP), 1, 1, 20.0, 20.0)
        early, late = call(state="begun", unseen=True), call(number=15, state="begun", unseen=True)
        self.assertEqual(stuck([early, backward, late], left(early), left(early), left(early)), [0])
        self.assertEqual(stuck([early, backward], left(), left(), left()), [])


class MessageTest(unittest.TestCase):
    """Ranks that wait for messages, or for somebody to take theirs."""

    def test_table(self) -> None:
        """Each row: two ranks, and who of them is stuck."""
        world: dict[str, Any] = {"members": (0, 1)}
        table: dict[str, tuple[list[Any], list[int]]] = {
            "both receive": ([[receive(1, **world)], [receive(0, **world)]], [0, 1]),
            "both send": ([[send(1, **world)], [send(0, **world)]], [0, 1]),
            "one sends, one receives": ([[send(1, **world)], [receive(0, **world)]], []),
            "another tag": ([[send(1, 3, **world)], [receive(0, 4, **world)]], [0, 1]),
            "the second message": (
                [
                    left(send(1, state="ended", **world)),
                    [receive(0, state="ended", **world), receive(0, **world)],
                ],
                [1],
            ),
            "from any, who is busy": ([[receive(None, **world)], busy()], []),
            "from any, who has left": ([[receive(None, **world)], left()], [0]),
            "from any, who has sent": ([[receive(None, **world)], left(send(0, state="begun", **world))], []),
            "to one that takes any": ([[send(1, **world)], busy(receive(None, **world))], []),
            "a backend whose send returns": ([[send(1, backend="mpi", **world)], left()], []),
        }
        for name, (ranks, expected) in table.items():
            with self.subTest(name):
                self.assertEqual(stuck(*ranks), expected)


class RendezvousTest(unittest.TestCase):
    """Ranks that make groups, or wait for a key."""

    def test_making(self) -> None:
        """A group is made when all members make it."""
        self.assertEqual(stuck([making(1, (0, 1))], left()), [0])
        self.assertEqual(stuck([making(1, (0, 1))], [making(1, (0, 1))]), [])
        self.assertEqual(stuck([making(1, (0, 1))], busy()), [])

    def test_keys(self) -> None:
        """Anybody who runs may set a key; one that was set is there."""
        self.assertEqual(stuck([waits_for_key()], left()), [0])
        self.assertEqual(stuck([waits_for_key()], busy()), [])
        self.assertEqual(stuck([waits_for_key()], left(sets_key())), [])
        self.assertEqual(stuck([waits_for_key()], left(sets_key("other"))), [0])
        self.assertEqual(stuck([waits_for_key()]), [0])
        self.assertEqual(stuck(helped(waits_for_key()), left()), [])

    def test_workers(self) -> None:
        """What waits for a number of calls waits until as many have begun, by whomever."""
        two, three = (
            call("store.barrier", kind=Kind.STORE, key="k", group="", members=(), workers=n) for n in (2, 3)
        )
        self.assertEqual(stuck([two], [two]), [])
        self.assertEqual(stuck([three], [three]), [0, 1])
        self.assertEqual(stuck([three], busy()), [])
        done = call("store.barrier", state="ended", kind=Kind.STORE, key="k", group="", members=())
        self.assertEqual(stuck([two], left(done)), [])
        self.assertEqual(stuck([two], left(replace(done, signature=waits_for_key("k").signature))), [0])

    def test_remote_calls(self) -> None:
        """Each row: ranks that wait for workers of RPC, and who is stuck.

        While an agent is up this is nobody but who waits in the shutdown for one that is done.
        """
        joined, joins_now, three = joins("w", state="ended"), joins("w"), joins("w", workers=3)
        left, barrier, ends = leaves("w", state="ended"), call("barrier"), leaves("w")
        gone = RankView(0, (joined, left), settled=True)
        stays = RankView(0, [joined], settled=True)
        table: dict[str, tuple[list[Any], list[int]]] = {
            "one never joins": ([[joins_now]] * 3 + [RankView(0, settled=True)], [0, 1, 2]),
            "one may join yet": ([[joins_now]] * 3 + [busy()], []),
            "all have begun to join": ([[joins_now]] * 4, []),
            "joining gives up": ([[joins("w", timeout_s=50.0)]] * 3 + [RankView(0, settled=True)], []),
            "joining is too many by one rank": ([[three], [three], busy(), RankView(0, settled=True)], []),
            "nobody knows who is a worker": ([[joins("w", workers=9)]] * 3 + [RankView(0, settled=True)], []),
            "a process may join": ([helped(joins_now)] * 3 + [RankView(0, settled=True)], []),
            "one left without a shutdown": ([[joined, ends]] * 3 + [stays], [0, 1, 2]),
            "one is not in the shutdown yet": (
                [[joined, ends], busy(joined, ends), busy(joined), stays],
                [0],
            ),
            "beside a barrier for it": ([[joined, ends], [joined, barrier], [barrier], stays], [0]),
            "who is done is no worker": (
                [[joined, leaves("w", workers=3)], busy(joined), [joined], RankView(0, settled=True)],
                [],
            ),
            "the shutdown gives up": ([[joined, leaves("w", timeout_s=50.0)]] * 3 + [stays], []),
            "another thread beside the shutdown": ([[joined, leaves("w", threads=2)]] * 3 + [stays], []),
            "nobody answers": ([[joined, asks("w")], gone, gone, gone], []),
            "a barrier beside agents": ([[joined, barrier], *[[joined, leaves("w")]] * 3], []),
            "an agent may set the key": ([[joined, waits_for_key()], gone, gone, gone], []),
            "the agent of one that is done may": (
                [[waits_for_key()], RankView(0, [joined], settled=True), gone, gone],
                [],
            ),
            "a barrier after the agents": ([[joined, left, barrier], gone, gone, gone], [0]),
        }
        for name, (ranks, expected) in table.items():
            with self.subTest(name):
                self.assertEqual(stuck(*ranks), expected)

    def test_over(self) -> None:
        """When the test is over, nothing has helped that might have."""
        for each, other in (
            ([call(bounded=True)], left()),
            ([call(threads=2)], left()),
            ([call(timeout_s=50.0)], left()),
            ([waits_for_key()], RankView(1, helped=True, settled=True)),
            ([send(1, backend="mine")], left()),
        ):
            with self.subTest(call=str(each[0])):
                views = [RankView(0, each), replace(other, rank=1), RankView(2, settled=True)]
                views.append(RankView(3, settled=True))
                self.assertEqual(prove(views, UNTIL_S), ())
                self.assertEqual([w.rank for w in prove(views, UNTIL_S, over=True)], [0])


CALLS = st.sampled_from(
    [
        call(),
        call(number=2),
        call(state="ended"),
        call("barrier", 2),
        call("broadcast", root=1),
        call(members=(0, 1), group="1"),
        receive(0),
        receive(1),
        receive(None),
        send(2),
        making(2, (0, 1)),
        waits_for_key(),
        sets_key(),
    ]
)
VIEWS = st.builds(
    RankView, st.just(0), st.lists(CALLS, max_size=3), settled=st.booleans(), can_move=st.booleans()
)


class PropertyTest(unittest.TestCase):
    """What holds for any ranks."""

    @given(st.lists(VIEWS, min_size=4, max_size=4))
    def test_only_waiting_ranks(self, views: list[RankView]) -> None:
        """A rank that is done, can move or waits for nothing is never stuck."""
        numbered = [replace(view, rank=rank) for rank, view in enumerate(views)]
        for waiting in prove(numbered, UNTIL_S):
            view = numbered[waiting.rank]
            self.assertFalse(view.settled or view.can_move)
            self.assertTrue(waiting.call.waits)

    @given(st.lists(VIEWS, min_size=4, max_size=4), st.integers(0, 3))
    def test_more_movement_frees(self, views: list[RankView], rank: int) -> None:
        """If a rank can move that could not, no other rank becomes stuck by it."""
        numbered = [replace(view, rank=number) for number, view in enumerate(views)]
        before = {w.rank for w in prove(numbered, UNTIL_S)}
        numbered[rank] = replace(numbered[rank], can_move=True, settled=False)
        self.assertLessEqual({w.rank for w in prove(numbered, UNTIL_S)}, before)


if __name__ == "__main__":
    unittest.main()
