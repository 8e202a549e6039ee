"""Tests which calls belong together, and in what they differ."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

from harness.communication.analysis.matching import difference, differences, messages, rows, unequal_messages
from harness.communication_call import Call
from suites.selftest.communication.samples import call, making, receive, send, waits_for_key


class RowsTest(unittest.TestCase):
    """Which calls ``rows`` puts together."""

    def test_what_belongs_together(self) -> None:
        """The same number in the same group, of any operation; messages and keys stand alone."""
        calls = {
            0: [call("barrier", 1), call(number=2), send(1), waits_for_key()],
            1: [call("barrier", 1), call("broadcast", 2), receive(0)],
            2: [call("barrier", 1, group="1", members=(2,))],
        }
        found = rows(calls)
        self.assertEqual([sorted(row.calls) for row in found], [[0, 1], [2], [0, 1]])
        self.assertEqual(found[0].missing(), [2, 3])

    def test_groups_of_the_same_name(self) -> None:
        """A group that was made again is another one."""
        self.assertEqual(len(rows({0: [call()], 1: [call(generation=1)]})), 2)

    def test_makings(self) -> None:
        """Groups of the same name are made together, whoever their members are."""
        self.assertEqual(len(rows({0: [making(1, (0, 1))], 1: [making(1, (1, 2))]})), 1)


class DifferenceTest(unittest.TestCase):
    """In what ``difference`` finds calls to differ."""

    def of(self, *calls: Call) -> tuple[str, tuple[tuple[tuple[int, ...], str], ...], tuple[int, ...]] | None:
        """What differs between the ranks' calls, the sides, and the odd ranks."""
        (row,) = rows({rank: [each] for rank, each in enumerate(calls)})
        found = difference(row)
        return None if found is None else (found.what, found.sides, found.odd)

    def test_table(self) -> None:
        """Each kind of difference; the majority comes first, and without one nobody is odd."""
        two: dict[str, Any] = {"agreed": "2 x float32", "tensors": "(2,) float32"}
        three: dict[str, Any] = {"agreed": "3 x float32", "tensors": "(3,) float32"}
        self.assertIsNone(self.of(call(), call()))
        self.assertIsNone(self.of(call()))
        self.assertEqual(
            self.of(call("barrier"), call(), call()),
            ("operation", (((1, 2), "all_reduce"), ((0,), "barrier")), (0,)),
        )
        self.assertEqual(
            self.of(call(**two), call(**three)),
            ("tensors", (((0,), "(2,) float32"), ((1,), "(3,) float32")), ()),
        )
        self.assertEqual(
            self.of(call(reduce_op="SUM"), call(reduce_op="SUM"), call(reduce_op="MAX")),
            ("reduce operation", (((0, 1), "SUM"), ((2,), "MAX")), (2,)),
        )
        self.assertEqual(self.of(call(root=1), call(root=0))[:1], ("root",))  # type: ignore[index]  # not None
        self.assertEqual(
            self.of(making(1, (0, 1)), making(1, (0, 2)))[:1],  # type: ignore[index]  # not None
            ("members",),
        )

    def test_groups_of_one_member(self) -> None:
        """Each rank may make a group of itself alone; one of those beside a larger group is a difference."""
        self.assertIsNone(self.of(making(1, (0,)), making(1, (1,)), making(1, (2,))))
        found = self.of(making(1, (0,)), making(1, (1, 2)), making(1, (1, 2)))
        self.assertEqual(found and (found[0], found[2]), ("members", (0,)))

    def test_most_telling(self) -> None:
        """Of several differences the operation is told, and not what follows from it."""
        found = self.of(call("barrier"), call(agreed="1 x float32", reduce_op="SUM"))
        assert found is not None
        self.assertEqual(found[0], "operation")

    def test_parts(self) -> None:
        """What one rank sends to another is what that expects of it."""
        members = (0, 1)
        right = [
            call("all_to_all_single", members=members, sent=(1, 2), received=(1, 3)),
            call("all_to_all_single", members=members, sent=(3, 4), received=(2, 4)),
        ]
        self.assertIsNone(self.of(*right))
        wrong = [right[0], call("all_to_all_single", members=members, sent=(3, 4), received=(5, 4))]
        self.assertEqual(
            self.of(*wrong),
            ("parts", (((0,), "sends 2 elements for rank 1"), ((1,), "expects 5 of rank 0")), ()),
        )

    def test_parts_of_one_rank(self) -> None:
        """A rank that fits none of several others is the odd one, and its pair is told."""
        for odd in range(3):
            with self.subTest(odd):
                of_odd = [call("all_to_all", members=(0, 1, 2), sent=(n,) * 3, received=(n,) * 3)
                          for n in (3 if rank == odd else 2 for rank in range(3))]  # fmt: skip
                (what, sides, found) = self.of(*of_odd) or ("", (), ())
                self.assertEqual((what, sides[0][0], found), ("parts", (odd,), (odd,)))

    def test_parts_that_the_root_expects(self) -> None:
        """A root that expects of no member what that sends is the odd one."""
        root = call("gather", members=(0, 1, 2), root=0, received=(2, 3, 3), sent=(2, -1, -1))
        leaf = call("gather", members=(0, 1, 2), root=0, sent=(2, -1, -1))
        self.assertEqual(
            self.of(root, leaf, leaf),
            ("parts", (((1,), "sends 2 elements for rank 0"), ((0,), "expects 3 of rank 1")), (0,)),
        )

    def test_parts_that_one_member_expects(self) -> None:
        """A member that expects another part of the root than it sends to all is the odd one."""
        root = call("scatter", members=(0, 1, 2), root=0, sent=(2, 2, 2), received=(2, -1, -1))
        leaves = [call("scatter", members=(0, 1, 2), root=0, received=(n, -1, -1)) for n in (2, 3)]
        self.assertEqual(
            self.of(root, *leaves),
            ("parts", (((0,), "sends 2 elements for rank 2"), ((2,), "expects 3 of rank 0")), (2,)),
        )

    def test_parts_that_nobody_sends(self) -> None:
        """A table of counts tells nothing of ranks between which nothing goes."""
        root = call("scatter", members=(0, 1), root=0, sent=(2, 2), received=(2, -1))
        leaf = call("scatter", members=(0, 1), root=0, received=(2, -1))
        self.assertIsNone(self.of(root, leaf))

    def test_in_order(self) -> None:
        """Differences come in the order in which the calls were made."""
        calls: dict[int, Sequence[Call]] = {
            0: [call(number=1, reduce_op="SUM"), call("barrier", 2)],
            1: [call(number=1, reduce_op="MAX"), call(number=2)],
        }
        self.assertEqual([found.what for found in differences(calls)], ["reduce operation", "operation"])


class MessagesTest(unittest.TestCase):
    """What ``messages`` and ``unequal_messages`` find."""

    def test_unequal(self) -> None:
        """The n-th send belongs to the n-th receive with its tag."""
        found = messages(
            {
                0: [send(1, agreed="1 x f"), send(1, 7, agreed="2 x f"), send(1, agreed="3 x f")],
                1: [receive(0, agreed="1 x f"), receive(0, agreed="4 x f"), receive(0, 7, agreed="2 x f")],
            }
        )
        ((channel, sent, received),) = unequal_messages(found)
        self.assertEqual((channel.sender, channel.receiver, channel.tag), (0, 1, 0))
        self.assertEqual((sent.signature.agreed, received.signature.agreed), ("3 x f", "4 x f"))

    def test_from_any(self) -> None:
        """Where a rank also receives from anybody, nothing is said."""
        calls = {0: [send(1, agreed="1 x f")], 1: [receive(None), receive(0, agreed="2 x f")]}
        self.assertEqual(list(unequal_messages(messages(calls))), [])

    def test_refused(self) -> None:
        """A message that was refused was never sent."""
        found = messages({0: [send(1, refused=True)]})
        self.assertEqual(dict(found.sends), {})


if __name__ == "__main__":
    unittest.main()
