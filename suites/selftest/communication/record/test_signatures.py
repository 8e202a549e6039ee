"""Tests what ranks compare of a call, and what people see of it."""

from __future__ import annotations

import json
import unittest
from dataclasses import replace
from typing import Any

import numpy
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from harness.communication.record.arguments import FUNCTIONAL, METHODS, OPERATORS, Arguments
from harness.communication.record.signatures import (
    WITH_COUNTS,
    call_text,
    ending_text,
    group_text,
    signature_of,
    store_text,
)
from harness.communication_call import Kind, Signature, signature_from_json

GROUP = Signature("?", "0", members=(4, 6), default=True, timeout_s=1800.0)
TWO, THREE = torch.ones(2), torch.ones(3, dtype=torch.int64)


def written(operation: str, arguments: Arguments, name: str = "") -> Signature:
    """What is read of a call that a rank has written down."""
    return signature_of(json.loads(call_text(operation, arguments, name)), GROUP)


class SignatureTest(unittest.TestCase):
    """``call_text`` and ``signature_of``, in a group of ranks 4 and 6."""

    def test_fields(self) -> None:
        """Ranks are global ones; a root or an operation is there only where the call has one."""
        found = written("reduce", Arguments((TWO,), reduce_op="sum", root=1))
        self.assertEqual((found.reduce_op, found.root, found.members), ("SUM", 6, (4, 6)))
        found = written("all_gather", Arguments((TWO,), (TWO, TWO), reduce_op="sum", root=1))
        self.assertEqual((found.reduce_op, found.root, found.agreed), ("", None, "2 x float32"))
        found = written("send", Arguments((TWO,), peer=0, tag=5))
        self.assertEqual((found.kind, found.peer, found.tag), (Kind.SEND, 4, 5))

    def test_timeout(self) -> None:
        """The call's own counts, else the group's."""
        self.assertEqual(written("barrier", Arguments()).timeout_s, 1800.0)
        self.assertEqual(written("barrier", Arguments(timeout_s=2.0)).timeout_s, 2.0)

    def test_texts(self) -> None:
        """Equal tensors are counted, and many are cut short."""
        for tensors, expected in (
            ((TWO, TWO), "2 times (2,) float32"),
            ((TWO, THREE), "(2,) float32, (3,) int64"),
            ((TWO, THREE) * 3, "(2,) float32, (3,) int64, (2,) float32, (3,) int64, ..."),
        ):
            self.assertEqual(written("all_reduce", Arguments(tensors)).tensors, expected)
        found = written("all_reduce_coalesced", Arguments((TWO, THREE), reduce_op="max"))
        self.assertEqual((found.agreed, found.nbytes), ("2 x float32, 3 x int64", 32))

    def test_sizes_that_are_symbols(self) -> None:
        """Of a tensor that is traced with symbolic sizes those are written that it was traced with."""
        texts = []

        def traced(x: torch.Tensor) -> torch.Tensor:
            texts.append(written("all_reduce", Arguments((x,))).tensors)
            return x

        make_fx(traced, tracing_mode="symbolic")(torch.ones(3, 4))
        self.assertEqual(texts, ["(3, 4) float32"])

    def test_splits(self) -> None:
        """What goes between two members is counted in elements, not in rows."""
        rows = torch.ones(4, 3)
        found = written("all_to_all_single", Arguments((rows,), (rows,), sent=(1, 3), received=(2, 2)))
        self.assertEqual((found.sent, found.received, found.agreed), ((3, 9), (6, 6), "float32"))

    def test_which_have_counts(self) -> None:
        """Those that are said to, and no other: equal texts of others are not looked at any further."""
        for operation in {*METHODS.values(), *OPERATORS.values(), *FUNCTIONAL.values()}:
            found = written(operation, Arguments((TWO,), (TWO, THREE), root=0, sent=(1, 1), received=(1, 1)))
            self.assertIs(bool(found.sent or found.received), operation in WITH_COUNTS, operation)

    def test_users_call(self) -> None:
        """A call of the backend that is a part of the user's has the name of that."""
        found = written("all_gather", Arguments((TWO,), (TWO, TWO)), "all_gather_object")
        self.assertEqual((found.operation, found.agreed), ("all_gather_object", "2 x float32"))

    def test_group(self) -> None:
        """The fields of a group, with names that JSON has to quote."""
        text = group_text(
            'a"b\\', (4, 6), made_at="t.py:1", default=False, generation=2, timeout_s=None, backend="gloo"
        )
        expected = Signature("?", 'a"b\\', members=(4, 6), made_at="t.py:1", generation=2, backend="gloo")
        self.assertEqual(signature_from_json(json.loads(text)), expected)
        ending = signature_from_json(json.loads(ending_text(text)))
        self.assertEqual(ending, replace(expected, operation="destroy_process_group", kind=Kind.ENDING))

    def test_store(self) -> None:
        """What is told of a store's call, with a prefix and a key that JSON has to quote."""
        for timeout_s, workers in ((None, 0), (1.5, 2)):
            text = store_text("store.get", 'a"/', Kind.STORE, "b\\\n", timeout_s, workers)
            expected = Signature(
                "store.get", 'a"/', Kind.STORE, key="b\\\n", timeout_s=timeout_s, workers=workers
            )
            self.assertEqual(signature_from_json(json.loads(text)), expected)

    def test_numbers_of_numpy(self) -> None:
        """Ranks, roots and split sizes may be numpy's, which are no JSON in a list."""
        two = numpy.int64(2)
        text = group_text("g", (two, 3), made_at="", default=False, generation=0, timeout_s=None)
        self.assertEqual(signature_from_json(json.loads(text)).members, (2, 3))
        rows = torch.ones(4)
        found = written("all_to_all_single", Arguments((rows,), (rows,), sent=(two, two), received=(two, 2)))
        self.assertEqual((found.sent, found.received), ((2, 2), (2, 2)))
        self.assertEqual(written("broadcast", Arguments((TWO,), root=numpy.int64(1))).root, 6)

    def test_what_no_rank_writes(self) -> None:
        """A list that is no call's, of a log that a test has overwritten, is refused."""
        right = json.loads(call_text("send", Arguments((TWO,), peer=1)))
        self.assertEqual(signature_of(right, GROUP).peer, 6)
        wrong: list[list[Any]] = [[], right[1:], [*right, 1], [1, *right[1:]]]
        wrong += [
            [*right[:2], tensors, *right[3:]] for tensors in (3, [3], [[[2], "float32"]], [[2, "a", 4]])
        ]
        wrong += [[*right[:2], [[[size], "float32", 4]], *right[3:]] for size in (-1, 2**63, 0.5, "2")]
        wrong += [[*right[:6], "1", *right[7:]], [*right[:8], [0.5], *right[9:]]]
        for told in wrong:
            with self.subTest(told), self.assertRaises((ValueError, TypeError)):
                signature_of(told, GROUP)


if __name__ == "__main__":
    unittest.main()
