"""Tests which column of the picture has what, what is told to be wrong in it, and where ranks stand."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from harness.communication_call import Call, Kind
from harness.outcomes import Status
from harness.record import MOST_CALLS, RankRecord
from harness.report.communication_layout import FEWEST_SHOWN, MOST_LANES, Lanes, lanes
from suites.selftest.communication.samples import asks, call, leaves, making, receive, send, waits_for_key


def ranks(*calls: Sequence[Call], status: Status = Status.DEADLOCKED) -> list[RankRecord]:
    """The records of ranks with these calls."""
    return [RankRecord(rank, status, calls=tuple(mine)) for rank, mine in enumerate(calls)]


def drawn(*calls: Sequence[Call], most: int = 30) -> Lanes:
    """The picture of ranks with these calls."""
    found = lanes(ranks(*calls), most)
    assert found is not None
    return found


def seen(picture: Lanes) -> list[tuple[str, str, dict[int, int], tuple[int, ...]]]:
    """Of each meeting the operation, the state, the columns by rank, and the ranks that are missing."""
    return [
        (
            m.cells[0].call.signature.operation,
            m.state,
            {cell.rank: cell.column for cell in m.cells},
            m.missing,
        )
        for m in picture.meetings
    ]


def ended(
    operation: str = "all_reduce", number: int = 1, members: tuple[int, ...] = (0, 1), **more: Any
) -> Call:
    """A collective that is over."""
    return call(operation, number, state="ended", members=members, **more)


def waits(
    operation: str = "all_reduce", number: int = 1, members: tuple[int, ...] = (0, 1), **more: Any
) -> Call:
    """A collective that the rank waits for."""
    return call(operation, number, members=members, **more)


class MeetingsTest(unittest.TestCase):
    """What ``lanes`` puts together, and what it says of it."""

    def test_table(self) -> None:
        """Each kind of meeting of two ranks: state, columns and who is missing."""
        over: dict[str, Any] = {"state": "ended"}
        both = {0: 0, 1: 0}
        table: list[tuple[str, list[Call], list[Call], list[object]]] = [
            ("over", [ended()], [ended()], [("all_reduce", "met", both, ())]),
            ("under way", [waits()], [ended()], [("all_reduce", "open", both, ())]),
            ("one is missing", [waits()], [], [("all_reduce", "unmatched", {0: 0}, (1,))]),
            ("another operation", [waits()], [waits("barrier")], [("all_reduce", "differs", both, ())]),
            (
                "another root",
                [ended("broadcast", root=0)],
                [ended("broadcast", root=1)],
                [("broadcast", "differs", both, ())],
            ),
            ("the making of a group", [making(1, (0, 1))], [], [("new_group", "unmatched", {0: 0}, (1,))]),
            ("a message", [send(1, **over)], [receive(0, **over)], [("send", "met", both, ())]),
            ("one under way", [send(1, **over)], [receive(0)], [("send", "open", both, ())]),
            (
                "one of other tensors",
                [send(1, agreed="1 x f", **over)],
                [receive(0, agreed="2 x f", **over)],
                [("send", "differs", both, ())],
            ),
            ("a send to nobody", [send(1, **over)], [], [("send", "unmatched", {0: 0}, (1,))]),
            ("a receive from nobody", [], [receive(0)], [("recv", "unmatched", {1: 0}, (0,))]),
            (
                "from any source, over",
                [send(1, **over)],
                [receive(None, **over)],
                [("send", "met", {0: 0}, ()), ("recv", "met", {1: 0}, ())],
            ),
            ("from any source, waiting", [], [receive(None)], [("recv", "unmatched", {1: 0}, ())]),
            ("a remote call", [asks("w1")], [], [("rpc_sync", "open", {0: 0}, ())]),
            ("a shutdown", [leaves("w0")], [], [("rpc.shutdown", "open", {0: 0}, ())]),
            ("a key that nobody sets", [waits_for_key()], [], [("store.get", "unmatched", {0: 0}, ())]),
        ]
        for what, first, second, expected in table:
            with self.subTest(what):
                self.assertEqual(seen(drawn(first, second)), expected)

    def test_what_is_not_shown(self) -> None:
        """Keys that were set or came, backward passes, and placements that agree."""
        quiet = [
            call("store.set", kind=Kind.SETTING, state="ended"),
            call("store.get", kind=Kind.STORE, state="ended"),
            call("backward", kind=Kind.IN_CPP, state="ended"),
            asks("w1", state="ended"),
            call("redistribute", kind=Kind.LAYOUT, state="ended", members=(0, 1)),
        ]
        self.assertIsNone(lanes(ranks(quiet, quiet)))
        self.assertIsNone(lanes(ranks()))

    def test_placements_that_differ(self) -> None:
        one, other = (
            call("redistribute", kind=Kind.LAYOUT, state="ended", members=(0, 1), agreed=agreed)
            for agreed in ("Shard(0)", "Shard(1)")
        )
        self.assertEqual(seen(drawn([one], [other])), [("redistribute", "differs", {0: 0, 1: 0}, ())])

    def test_the_odd_one(self) -> None:
        """Of a difference with a majority, the others' boxes are as they should be."""
        usual, odd = (ended(members=(0, 1, 2), reduce_op=op) for op in ("SUM", "MAX"))
        (meeting,) = drawn([usual], [odd], [usual]).meetings
        self.assertEqual([cell.state for cell in meeting.cells], ["met", "differs", "met"])
        self.assertEqual(
            meeting.text,
            "all_reduce #1 of the default group: ranks 0-2 (t.py:20 in test_x) (rank 1 differs)",
        )

    def test_text_of_a_missing_rank(self) -> None:
        (meeting,) = drawn([waits()], []).meetings
        self.assertEqual(
            meeting.text,
            "all_reduce #1 of the default group: rank 0 (t.py:20 in test_x); rank 1 did not come (unmatched)",
        )

    def test_calls_before_those_on_record(self) -> None:
        """A rank whose record begins later may have come: it is not called missing."""
        many = [ended(number=n) for n in range(10, 10 + MOST_CALLS)]
        first = drawn([ended(number=9)], many, most=100).meetings[0]
        self.assertEqual((first.state, first.missing), ("met", ()))

    def test_messages_of_a_rank_with_earlier_calls(self) -> None:
        """Nobody knows which they are, so that none is matched, nor called unmatched."""
        many = [receive(0, state="ended", number=n) for n in range(MOST_CALLS)]
        states = {(m.state, m.message) for m in drawn([send(1, state="ended")], many, most=100).meetings}
        self.assertEqual(states, {("met", False)})


class ColumnsTest(unittest.TestCase):
    """Where ``lanes`` puts what."""

    def columns(self, picture: Lanes) -> dict[str, dict[int, int]]:
        """The columns of each meeting by rank."""
        return {name: columns for name, _, columns, _ in seen(picture)}

    def test_each_rank_in_its_order(self) -> None:
        picture = drawn([ended("a", 1), ended("b", 2)], [ended("a", 1), ended("b", 2)])
        self.assertEqual(self.columns(picture), {"a": {0: 0, 1: 0}, "b": {0: 1, 1: 1}})
        self.assertEqual(picture.columns, 2)

    def test_groups_side_by_side(self) -> None:
        """Groups whose lanes do not cross share a column; nothing stands between the lanes of one."""
        near = [ended("near", members=(0, 1), group="near")]
        far = [ended("far", members=(2, 3), group="far", at=0.1)]
        self.assertEqual(
            self.columns(drawn(near, near, far, far)), {"near": {0: 0, 1: 0}, "far": {2: 0, 3: 0}}
        )
        wide = [ended("wide", members=(0, 3), group="wide")]
        within = [ended("within", members=(1, 2), group="within", at=0.1)]
        self.assertEqual(
            self.columns(drawn(wide, within, within, wide)), {"wide": {0: 0, 3: 0}, "within": {1: 1, 2: 1}}
        )

    def test_orders_that_cross(self) -> None:
        """Ranks that call two groups in different orders: each in its own, and nothing is lost."""

        def made(name: str, at: float) -> Call:
            return ended(name, group=name, at=at)

        found = self.columns(drawn([made("a", 0.0), made("b", 0.2)], [made("b", 0.1), made("a", 0.3)]))
        self.assertLess(found["a"][0], found["b"][0])
        self.assertLess(found["b"][1], found["a"][1])

    def test_only_the_last(self) -> None:
        """Earlier meetings are left out and counted, but not one in which something is wrong."""
        usual = [ended(number=n) for n in range(1, 41)]
        other = [ended(number=n, reduce_op="MAX" if n == 5 else "") for n in range(1, 41)]
        picture = drawn(usual, other, most=10)
        self.assertEqual([m.cells[0].call.number for m in picture.meetings], [5, *range(31, 41)])
        self.assertEqual(picture.gaps, {0: 4, 1: 25})
        self.assertEqual([lane.earlier for lane in picture.lanes], [29, 29])

    def test_many_ranks(self) -> None:
        """Ranks that did the same have one lane, and many lanes fewer columns."""
        everybody = tuple(range(20))
        same = [ended(number=n, members=everybody) for n in range(1, 41)]
        picture = drawn(*([same] * 11), same[:-1], *([same] * 8))
        self.assertEqual([lane.ranks for lane in picture.lanes], [(*range(11), *range(12, 20)), (11,)])
        self.assertEqual(picture.meetings[-1].missing, (11,))
        self.assertIn("ranks 0-10, 12-19", picture.meetings[-1].text)
        alone = [[ended(number=n, group=str(r), members=(r,)) for n in range(1, 41)] for r in range(40)]
        own = drawn(*alone)
        self.assertEqual((len(own.lanes), len(own.meetings)), (40, FEWEST_SHOWN))
        self.assertGreater(len(own.lanes), MOST_LANES)


class LanesTest(unittest.TestCase):
    """What ``lanes`` says of each rank."""

    def test_where_each_stands(self) -> None:
        stack = 'Current thread 0x1 (most recent call first):\n  File "/home/me/t.py", line 38 in step\n'
        error = (
            'Traceback (most recent call last):\n  File "t.py", line 3, in x\n    f()\nKeyError: 1\nseed 7\n'
        )
        table = [
            (RankRecord(0, Status.PASSED), "left the test", True),
            (
                RankRecord(0, Status.DEADLOCKED, calls=(waits(),)),
                "waits in all_reduce #1 (t.py:20 in test_x)",
                False,
            ),
            (RankRecord(0, Status.TIMED_OUT, stack=stack), "is at t.py:38 in step", False),
            (RankRecord(0, Status.CRASHED, exit_code=-11), "crashed with signal SIGSEGV", True),
            (RankRecord(0, Status.ERROR, error=error), "raised KeyError: 1", True),
            (RankRecord(0, Status.SKIPPED), "skipped", True),
        ]
        for record, said, over in table:
            with self.subTest(said):
                picture = lanes([record, RankRecord(1, Status.PASSED, calls=(ended(),))])
                assert picture is not None
                self.assertEqual((picture.lanes[0].stands, picture.lanes[0].over), (said, over))

    def test_last_column(self) -> None:
        picture = drawn([ended(number=1), waits(number=2)], [ended(number=1)])
        self.assertEqual([lane.last for lane in picture.lanes], [1, 0])


if __name__ == "__main__":
    unittest.main()
