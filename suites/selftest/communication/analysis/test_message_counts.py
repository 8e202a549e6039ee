"""Tests of how many messages ranks have in each other's way: tables of ranks' calls."""

from __future__ import annotations

import unittest
from typing import Any

from harness.communication.analysis.message_counts import counts_text, unequal_counts
from harness.communication.call_log import ENTRIES
from harness.communication_call import Call
from suites.selftest.communication.samples import receive, send

PAIR: dict[str, Any] = {"members": (0, 1)}
SENT, GOT = send(1, state="ended", **PAIR), receive(0, state="ended", **PAIR)


class CountsTest(unittest.TestCase):
    """``unequal_counts`` and what is made of it."""

    def said(self, *ranks: list[Call]) -> str:
        """What is said of ranks with these calls."""
        return counts_text(unequal_counts(dict(enumerate(ranks)), {0, 1}))

    def test_table(self) -> None:
        """Each row: the calls of two ranks, and the words."""
        tagged = [send(1, 4, state="ended", **PAIR), receive(0, 4, state="ended", **PAIR)]
        parts = send(1, state="ended", **PAIR), receive(0, state="ended", **PAIR)
        objects = [
            Call(
                type(each.signature)(
                    f"{each.signature.operation}_object_list", "0", each.kind, (0, 1), peer=peer
                )
            )
            for each, peer in zip(parts, (1, 0), strict=True)
        ]
        one_more = ": rank 0 sends 1 message to rank 1, which receives 2"
        rows: dict[str, tuple[list[Call], list[Call], str]] = {
            "as many": ([SENT, SENT], [GOT, GOT], ""),
            "one receive more": ([SENT], [GOT, GOT], one_more),
            "one send more": ([SENT] * 3, [GOT] * 2, ": rank 0 sends 3 messages to rank 1, which receives 2"),
            "none arrived": ([SENT, SENT], [], ""),
            "none sent": ([], [GOT], ""),
            "from any": ([SENT], [GOT, GOT, receive(None, **PAIR)], ""),
            "with a tag": (
                [tagged[0], SENT],
                [tagged[1], tagged[1], GOT],
                ": rank 0 sends 1 message to rank 1 with tag 4, which receives 2",
            ),
            "parts of an object are none": ([objects[0], SENT], [objects[1], objects[1], GOT], ""),
            "the first calls are lost": ([SENT] * ENTRIES, [GOT], ""),
        }
        for name, (one, other, expected) in rows.items():
            with self.subTest(name):
                self.assertEqual(self.said(one, other), expected)

    def test_of_some_ranks(self) -> None:
        """Not of one that is held up by them; of one that has sent them more."""
        three: dict[str, Any] = {"members": (0, 1, 2)}
        first = [send(1, **three)] * 3
        middle = [*[receive(0, **three)] * 2, *[send(2, **three)] * 2]
        last = [receive(1, **three)] * 3
        calls = dict(enumerate((first, middle, last)))
        pairs = {
            among: [(each.channel.sender, each.channel.receiver) for each in unequal_counts(calls, among)]
            for among in ((0, 1), (1, 2), (0, 1, 2))
        }
        self.assertEqual(pairs, {(0, 1): [(0, 1)], (1, 2): [(0, 1), (1, 2)], (0, 1, 2): [(0, 1), (1, 2)]})


if __name__ == "__main__":
    unittest.main()
