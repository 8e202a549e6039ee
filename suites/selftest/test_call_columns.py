"""Tests the columns in which a record has its ranks' calls."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

from hypothesis import strategies as st

from harness.call_columns import SignatureTable, calls_of, columns, signatures_of
from harness.communication_call import Call, Signature
from suites.selftest.call_strategies import CALLS
from suites.selftest.properties import given

GROUP = Signature("all_reduce", "1", members=(0, 2))


class ColumnsTest(unittest.TestCase):
    """Calls as columns, there and back."""

    @given(st.lists(st.lists(CALLS, max_size=4), max_size=3))
    def test_round_trip(self, ranks: list[list[Call]]) -> None:
        """The calls of each rank come back from their JSON, those with one signature with one object."""
        ranks = [[*calls, *(replace(call, sequence=7) for call in calls)] for calls in ranks]
        table = SignatureTable()
        written = json.loads(json.dumps([columns(calls, table) for calls in ranks]))
        signatures = signatures_of(json.loads(json.dumps(table.columns())))
        self.assertEqual(len(signatures), len({id(call.signature) for calls in ranks for call in calls}))
        for calls, value in zip(ranks, written, strict=True):
            back = calls_of(value, signatures)
            self.assertEqual(list(back), calls)
            half = len(calls) // 2
            for one, other in zip(back[:half], back[half:], strict=True):
                self.assertIs(one.signature, other.signature)

    def test_shape(self) -> None:
        """A signature is written once for all ranks; a field that has its default in all calls, nowhere."""
        table = SignatureTable()
        calls = [Call(GROUP, 1, 1, 2.0, place="t.py:3"), Call(GROUP, 2, 2, 3.0)]
        expected = {
            "signature": [0, 0],
            "sequence": [1, 2],
            "number": [1, 2],
            "started_s": [2.0, 3.0],
            "place": ["t.py:3", ""],
        }
        self.assertEqual(columns(calls, table), expected)
        self.assertEqual(columns([Call(GROUP)], table), {"signature": [0]})
        self.assertEqual(columns([], table), {})
        told = {"operation": ["all_reduce"], "group": ["1"], "members": [(0, 2)]}
        self.assertEqual(table.columns(), told)
        self.assertEqual(SignatureTable().columns(), {})

    def test_newer_column(self) -> None:
        """A column that a newer harness has added is left out."""
        value = {"signature": [0], "colour": ["sepia"]}
        self.assertEqual(calls_of(value, {0: GROUP}), (Call(GROUP),))

    def test_nonsense_of_signatures(self) -> None:
        """Values that are no signatures are refused."""
        wrong_ones: tuple[dict[str, Any], ...] = (
            {"group": ["0"]},
            {"operation": 7},
            {"operation": [7]},
            {"operation": ["x"], "group": []},
            {"operation": ["x"], "members": [[None]]},
            {"operation": ["x"], "members": [3]},
            {"operation": ["x"], "kind": ["no such"]},
            {"operation": ["x"], "kind": [[]]},
            {"operation": ["x"], "timeout_s": ["1"]},
        )
        for wrong in wrong_ones:
            with self.subTest(wrong), self.assertRaises((KeyError, TypeError, ValueError)):
                signatures_of(wrong)

    def test_nonsense(self) -> None:
        """Values that are no calls are refused."""
        wrong_ones: tuple[dict[str, Any], ...] = (
            {"sequence": [1]},
            {"signature": 7},
            {"signature": [1]},
            {"signature": [-1]},
            {"signature": [[0]]},
            {"signature": [0, 0], "sequence": [1]},
            {"signature": [0], "sequence": [1, 2]},
            {"signature": [0], "sequence": 1},
            {"signature": [0], "sequence": ["1"]},
            {"signature": [0], "place": "x"},
            {"signature": [0], "place": [None]},
            {"signature": [0], "started_s": [float("nan")]},
            {"signature": [0], "ended_s": [1e300]},
            {"signature": [0], "raised": [1]},
        )
        for wrong in wrong_ones:
            with self.subTest(wrong), self.assertRaises((KeyError, TypeError, ValueError)):
                calls_of(wrong, {0: GROUP})


if __name__ == "__main__":
    unittest.main()
