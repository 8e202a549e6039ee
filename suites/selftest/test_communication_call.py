"""Tests communication calls as values: their JSON, their words, and which of them a rank is in."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

from harness.communication_call import Call, Kind, Signature, call_from_json, to_json, under_way
from suites.selftest.call_strategies import CALLS
from suites.selftest.properties import given

GROUP = Signature("all_reduce", "1", members=(0, 2), made_at="t.py:20")
DEFAULT = Signature("all_reduce", "0", members=(0, 1, 2), default=True)


class JsonTest(unittest.TestCase):
    """Calls as JSON, there and back."""

    @given(CALLS)
    def test_round_trip(self, call: Call) -> None:
        """Each call comes back from its JSON."""
        self.assertEqual(call_from_json(json.loads(json.dumps(to_json(call)))), call)

    def test_defaults_are_left_out(self) -> None:
        """A call of few words is a line of few."""
        value = to_json(Call(Signature("barrier"), 3, 3))
        self.assertEqual(value, {"signature": {"operation": "barrier"}, "sequence": 3, "number": 3})

    def test_nonsense(self) -> None:
        """Values that are no call are refused."""
        whole = to_json(Call(GROUP))
        wrong_ones: tuple[dict[str, Any], ...] = (
            {},
            {"signature": {}},
            {**whole, "sequence": "1"},
            {**whole, "signature": {"operation": 3}},
            {**whole, "signature": {"operation": "x", "members": [None]}},
            {**whole, "signature": {"operation": "x", "kind": "no such"}},
        )
        for wrong in wrong_ones:
            with self.subTest(wrong), self.assertRaises((KeyError, TypeError, ValueError)):
                call_from_json(wrong)


class WordsTest(unittest.TestCase):
    """Calls and groups as their users would name them."""

    def test_table(self) -> None:
        """Each kind of call has its words."""
        message = replace(DEFAULT, operation="send", kind=Kind.SEND, peer=2)
        receive = replace(DEFAULT, operation="recv", kind=Kind.RECEIVE)
        table = {
            "all_reduce #5 of the default group": Call(DEFAULT, 7, 5),
            "all_reduce #5 of group {0, 2} made at t.py:20": Call(GROUP, 5, 5),
            "all_reduce #1 of group 1": Call(replace(GROUP, members=()), 1, 1),
            "send to rank 2": Call(message),
            "send to rank 2 with tag 7": Call(replace(message, tag=7)),
            "recv from any rank": Call(receive),
            "send_object_list to rank 2": Call(replace(message, operation="send_object_list")),
            "recv_object_list from any rank": Call(replace(receive, operation="recv_object_list")),
            "recv from rank 0 in group {0, 2} made at t.py:20": Call(
                replace(GROUP, kind=Kind.RECEIVE, peer=0)
            ),
            "store.get('key')": Call(Signature("store.get", kind=Kind.STORE, key="key")),
            "rpc_sync to w1": Call(Signature("rpc_sync", kind=Kind.ANSWER, key="w1")),
            "to_here from w1": Call(Signature("to_here", kind=Kind.ANSWER, key="w1")),
            "init_rpc": Call(Signature("init_rpc", kind=Kind.WORKERS, key="w1", workers=3)),
            "init_process_group, for all ranks": Call(
                replace(DEFAULT, operation="init_process_group", kind=Kind.MAKING)
            ),
            "new_group, for the other ranks of group {0, 2} made at t.py:20": Call(
                replace(GROUP, operation="new_group", kind=Kind.MAKING)
            ),
            "redistribute #2 on the mesh of ranks 0, 1": Call(
                Signature("redistribute", kind=Kind.LAYOUT, members=(0, 1)), 2, 2
            ),
            "redistribute #1 on the mesh of ranks 0, 2, 1, 3, 8-1023": Call(
                Signature("redistribute", kind=Kind.LAYOUT, members=(0, 2, 1, 3, *range(8, 1024)))
            ),
        }
        for words, call in table.items():
            with self.subTest(words):
                self.assertEqual(str(call), words)

    def test_place(self) -> None:
        """The place stands in brackets, where there is one."""
        self.assertEqual(Call(GROUP, place="t.py:3 in f").at, " (t.py:3 in f)")
        self.assertEqual(Call(GROUP).at, "")


class UnderWayTest(unittest.TestCase):
    """The call that a rank is in, by ``under_way``."""

    def test_table(self) -> None:
        """The innermost call for which the rank waits, else the last that has not returned."""
        ended = Call(GROUP, 1, 1, 1.0, 1.0, 2.0)
        waits = Call(GROUP, 2, 2, 3.0, 3.5)
        inside = Call(GROUP, 3, 3, 4.0)
        later = Call(GROUP, 4, 4, 5.0, own_work=True)
        in_cpp = Call(GROUP, 5, 5, 6.0, unseen=True)
        for calls, expected in (
            ([], None),
            ([ended], None),
            ([ended, waits], waits),
            ([waits, later], waits),
            ([waits, inside], waits),
            ([ended, inside], inside),
            ([ended, later, in_cpp], None),
        ):
            with self.subTest(calls):
                self.assertEqual(under_way(calls), expected)


if __name__ == "__main__":
    unittest.main()
