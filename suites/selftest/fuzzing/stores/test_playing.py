"""Tests that programs of stores are played: what a right store passes, and what a wrong one is told."""

from __future__ import annotations

import unittest
from unittest import mock

import torch.distributed as dist

from harness.fuzzing.stores import playing
from harness.fuzzing.stores.linearizability import Event
from harness.fuzzing.stores.playing import LATEST, check, explained, until_answered

IN_TURNS = [
    (0, "set", ("a", "\x00\xff")),
    (1, "get", ("a",)),
    (1, "add", ("n", 2)),
    (0, "clone", ()),
    (0, "compare_set", ("a", "x", "1")),
    (0, "multi_get", (("a", "n"),)),
    (1, "wait", (("a", "n"),)),
    (0, "remove", ("a",)),
    (1, "check", (("a",),)),
    (1, "num_keys", ()),
]
SIDE_BY_SIDE = [(0, "add", ("n", 1)), (1, "add", ("n", 1)), (1, "get", ("n",)), (0, "append", ("a", "x"))]


class PlayingTest(unittest.TestCase):
    def test_right_programs(self) -> None:
        for kind in ("hash", "prefix file", "tcp"):
            for way, calls in (("turns", IN_TURNS), ("threads", SIDE_BY_SIDE)):
                with self.subTest(kind=kind, way=way):
                    check(kind, way, 2, calls)

    def test_turns_of_a_server_that_does_not_answer(self) -> None:
        """The next client asks once the server has what was set: it gets an answer no sooner."""
        calls = [
            call
            for number in range(1000)
            for call in (
                (1, "set", (f"k{number}", "v" * (1, 50_000, 300_000)[number % 3])),
                (2, "check", ((f"k{number}",),)),
            )
        ]
        check("tcp", "turns", 3, calls)

    def test_new_server(self) -> None:
        """All is gone with the server, and its clients find the next one."""
        calls = [(1, "set", ("a", "1")), (0, "restart", ()), (1, "check", (("a",),)), (0, "num_keys", ())]
        check("legacy", "turns", 2, calls)

    def test_queues(self) -> None:
        calls = [(0, "queue_push", ("q", "1")), (0, "queue_len", ("q",)), (0, "queue_pop", ("q",))]
        check("hash", "turns", 1, [*calls, (0, "queue_pop", ("q",)), (0, "get", ("q",))])

    def test_wrong_store(self) -> None:
        """A store that loses an addition is told of in turns, and side by side."""

        def add(store: dist.Store, key: str, amount: int) -> int:
            store.set(key, "1")
            return 1

        with mock.patch.object(dist.HashStore, "add", add):
            with self.assertRaisesRegex(AssertionError, "^add gives 1 for 2\ncall 1"):
                check("hash", "turns", 1, [(0, "add", ("n", 1)), (0, "add", ("n", 1))])
            with self.assertRaisesRegex(AssertionError, "^no order of the calls gives what they gave: add\n"):
                check("hash", "threads", 2, [(0, "add", ("n", 1)), (1, "add", ("n", 1))])

    def test_other_errors_are_raised(self) -> None:
        failing = mock.patch.object(playing, "_given", mock.Mock(side_effect=RuntimeError("odd")))
        with failing, self.assertRaisesRegex(RuntimeError, "odd"):
            check("hash", "turns", 1, [(0, "set", ("a", "1"))])

    def test_unanswered(self) -> None:
        """What TCPStore does not answer has its effect before the client's next answer; else at any time."""
        write, other = Event(0, 0, 1, "set", ("a", "1"), None), Event(0, 2, 3, "append", ("b", "1"), None)
        early = Event(1, 4, 5, "check", (("a",),), False)
        answered = Event(0, 6, 7, "check", (("a",),), True)
        ends = [each.ended for each in until_answered([write, other, answered, early])]
        self.assertEqual(ends, [7, 7, 7, 5])
        self.assertEqual([each.ended for each in until_answered([write, early])], [LATEST, 5])
        explained("tcp", [write, answered, early])
        with self.assertRaisesRegex(AssertionError, "key 'a'"):
            explained("file", [write, answered, early])


if __name__ == "__main__":
    unittest.main()
