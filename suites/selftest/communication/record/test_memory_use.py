"""Tests which memory calls use, and which calls use the same."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from hypothesis import strategies as st
from torch._C import _distributed_c10d

from harness.communication.record.memory_use import Extent, UsedMemory, extents, used_by
from suites.selftest.properties import given

c10d: Any = _distributed_c10d
ONE, TWO, THREE = torch.ones(1), torch.ones(2), torch.ones(3)
EXTENTS = st.lists(
    st.tuples(st.integers(0, 40), st.integers(1, 9)).map(lambda at: (at[0], sum(at))), max_size=2
)


class UsedByTest(unittest.TestCase):
    """The tensors of a call, those first that it writes to."""

    def test_table(self) -> None:
        """Each form of arguments."""
        table: list[tuple[str, tuple[Any, ...], list[torch.Tensor], int]] = [
            ("all_reduce", ([ONE], None), [ONE], 1),
            ("recv", ([ONE], 1, 0), [ONE], 1),
            ("send", ([ONE], 1, 0), [ONE], 0),
            ("barrier", (None,), [], 0),
            ("broadcast", (ONE, 0), [ONE], 1),
            ("all_gather", ([[ONE, TWO]], [THREE], None), [ONE, TWO, THREE], 2),
            ("all_gather_coalesced", ([[ONE], [TWO]], [THREE], None), [ONE, TWO, THREE], 2),
            ("reduce_scatter", ([ONE], [[TWO, THREE]], None), [ONE, TWO, THREE], 1),
            ("gather", ([], [ONE], None), [ONE], 0),
            ("scatter", ([ONE], [], None), [ONE], 1),
            ("all_gather_into_tensor", (ONE, TWO, None), [ONE, TWO], 1),
            ("all_to_all_single", (ONE, TWO, [1], [2], None), [ONE, TWO], 1),
        ]
        for operation, args, tensors, written in table:
            with self.subTest(operation):
                found, count = used_by(operation)(args, {})
                self.assertEqual(([*map(id, found)], count), ([*map(id, tensors)], written))

    def test_named(self) -> None:
        """Tensors that are given by name."""
        found, written = used_by("all_reduce")((), {"tensors": [ONE, TWO]})
        self.assertEqual((len(found), written), (2, 2))
        found, written = used_by("barrier")((), {"opts": c10d.BarrierOptions()})
        self.assertEqual((len(found), written), (0, 0))

    def test_a_list_that_is_changed_later(self) -> None:
        """What the call was given stays."""
        tensors = [ONE, TWO]
        found, _ = used_by("all_reduce")((tensors, None), {})
        tensors.clear()
        self.assertEqual(len(found), 2)


class ExtentsTest(unittest.TestCase):
    """Where the bytes of tensors are."""

    def test_table(self) -> None:
        """Those without bytes, or with gaps between them, are left out."""
        table = torch.zeros(4, 4)
        start = table.data_ptr()
        found = extents([table, table[1:], table.t(), table[:, :2], torch.ones(0), table.to_sparse()])
        self.assertEqual(found, [(start, start + 64), (start + 16, start + 64), (start, start + 64)])

    def test_expanded(self) -> None:
        """One whose elements are in the same place has no more bytes than that."""
        start = ONE.data_ptr()
        self.assertEqual(extents([ONE.expand(5)]), [(start, start + 4)])


class UsedMemoryTest(unittest.TestCase):
    """Calls that use the same bytes, of which one writes them."""

    @given(st.lists(st.tuples(EXTENTS, EXTENTS), max_size=8), EXTENTS, EXTENTS, st.sets(st.integers(0, 7)))
    def test_collisions(
        self,
        calls: list[tuple[list[Extent], list[Extent]]],
        written: list[Extent],
        read: list[Extent],
        over: set[int],
    ) -> None:
        """The same as by comparing each with each, also where some are over and some were added twice."""
        memory = UsedMemory()
        for call, used in enumerate(calls):
            memory.add(call, *used)
            if call % 3 == 0:
                memory.add(call, *used)
        for call in over:
            memory.remove(call)
        expected = {
            call
            for call, (theirs, seen) in enumerate(calls)
            if call not in over and (_meet(theirs, [*written, *read]) or _meet(seen, written))
        }
        self.assertEqual(memory.collisions(written, read), expected)


def _meet(some: list[Extent], others: list[Extent]) -> bool:
    return any(a < d and c < b for a, b in some for c, d in others)


if __name__ == "__main__":
    unittest.main()
