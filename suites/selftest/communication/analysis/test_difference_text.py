"""Tests the lines about calls in which ranks differ."""

from __future__ import annotations

import unittest
from dataclasses import replace
from typing import Any

from harness.communication.analysis.difference_text import (
    MODULE,
    difference_text,
    incomplete_text,
    message_text,
    verb_of,
)
from harness.communication.analysis.matching import differences, messages, rows, unequal_messages
from harness.communication_call import Call, Kind
from suites.selftest.communication.samples import call, receive, send


class DifferenceTest(unittest.TestCase):
    """The line about the first difference among the calls of ranks."""

    def check(self, calls: list[Call], text: str, *ranks: int) -> None:
        """Gives each rank one call, and checks what is said of them and who is blamed."""
        (found,) = differences({rank: (each,) for rank, each in enumerate(calls)})
        said = difference_text(found)
        self.assertEqual((said.text, said.ranks), (text, ranks))

    def test_tensors(self) -> None:
        """The odd rank comes first, with what it gave, and where; of others where, if elsewhere."""
        odd: dict[str, Any] = {"agreed": "3", "tensors": "(3,) float32", "place": "t.py:30 in test_x"}
        even: dict[str, Any] = {"agreed": "2", "tensors": "(2,) float32"}
        told = "rank 1 reduces (3,) float32 in all_reduce #1 (t.py:30 in test_x), ranks 0, 2, 3 (2,) float32"
        self.check([call(**even), call(**odd), call(**even), call(**even)], f"{told} (t.py:20 in test_x)", 1)
        even["place"] = odd["place"]
        self.check([call(**even), call(**odd), call(**even), call(**even)], told, 1)

    def test_parameters(self) -> None:
        """Of the parameters of a module how many there are, or the first that differs."""
        table = {
            "(2,) a; (3,) b; (4,) c": "rank 1 has 3 parameters in {at}, ranks 0, 2 2 parameters",
            "(2,) a; (4,) b": "rank 1 has (4,) b for parameter 1 in {at}, ranks 0, 2 (3,) b for parameter 1",
        }
        for odd, text in table.items():
            with self.subTest(odd):
                told = ["(2,) a; (3,) b", odd, "(2,) a; (3,) b"]
                calls = [call(MODULE, kind=Kind.LAYOUT, tensors=each, agreed=each) for each in told]
                self.check(calls, text.format(at=f"{MODULE} #1 (t.py:20 in test_x)"), 1)

    def test_incomplete(self) -> None:
        """The fewer ranks come first: those that did not call it, or those that did."""
        table = {
            (0, 1, 3): "rank 2 never called broadcast #1 of the default group, which ranks 0, 1, 3 call "
            "(t.py:20 in test_x)",
            (2,): "rank 2 calls broadcast #1 of the default group (t.py:20 in test_x), which ranks 0, 1, 3 "
            "never called",
        }
        for callers, text in table.items():
            with self.subTest(callers=callers):
                (row,) = rows({rank: (call("broadcast"),) for rank in callers})
                self.assertEqual(incomplete_text(row, row.missing()), text)

    def test_root(self) -> None:
        """The root that each takes, and where, if that is at different lines."""
        self.check(
            [call("broadcast", root=int(r == 2)) for r in range(4)],
            "rank 2 takes rank 1 for the root, ranks 0, 1, 3 rank 0 for the root, in broadcast #1 "
            "(t.py:20 in test_x)",
            2,
        )
        self.check(
            [call("broadcast", root=r, place=f"t.py:{r + 30} in test_x") for r in range(2)],
            "rank 0 takes rank 0 for the root, rank 1 rank 1 for the root (t.py:31 in test_x), in "
            "broadcast #1 (t.py:30 in test_x)",
            *(0, 1),
        )

    def test_operation(self) -> None:
        """The call that each makes; without a majority both sides are named."""
        self.check(
            [call("barrier" if r == 3 else "all_reduce") for r in range(4)],
            "rank 3 calls barrier #1 (t.py:20 in test_x), ranks 0-2 call all_reduce #1 (t.py:20 in test_x)",
            3,
        )
        (found,) = differences({r: (call("barrier" if r > 1 else "all_reduce"),) for r in range(4)})
        self.assertEqual(difference_text(found).ranks, (0, 1, 2, 3))

    def test_members(self) -> None:
        """The group that each makes, be it that one has left another out, or has named other members."""
        made = [
            call("new_group", kind=Kind.MAKING, group="1", members=members, place=f"t.py:{line} in test_x")
            for line, members in ((7, (0, 1)), (7, (0, 2)), (7, (0, 1)), (8, (0, 1)))
        ]
        self.check(
            made,
            "ranks make different groups: rank 1 makes group {0, 2} (t.py:7 in test_x), "
            "ranks 0, 2, 3 make group {0, 1} (t.py:7 in test_x)",
            1,
        )

    def test_message(self) -> None:
        """What one sends, and what the other expects of it."""
        sent = send(1, tensors="(2,) float32", agreed="2 x float32")
        expected = receive(0, tensors="(3,) float32", agreed="3 x float32")
        ((channel, first, second),) = unequal_messages(messages({0: (sent,), 1: (expected,)}))
        said = message_text(channel, first, second)
        self.assertRegex(said.text, r"^rank 0 sends \(2,\) float32 .*rank 1 receives \(3,\) float32 from it")
        self.assertEqual(said.ranks, (0, 1))
        of_objects = replace(sent, signature=replace(sent.signature, operation="send_object_list"))
        said = message_text(channel, of_objects, second)
        self.assertTrue(said.text.startswith("rank 0 sends (2,) float32 by send_object_list (t.py:20"), said)

    def test_verb(self) -> None:
        """Ranks with a predicate in the right number."""
        self.assertEqual(verb_of((1,), "waits", "wait"), "rank 1 waits")
        self.assertEqual(verb_of((0, 1), "waits", "wait"), "ranks 0, 1 wait")


if __name__ == "__main__":
    unittest.main()
