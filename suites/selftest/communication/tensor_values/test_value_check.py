"""Tests where wrong numbers of calls are found, and that nothing is said where numbers mean nothing."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from harness.communication.analysis.checks import MOST_OF_A_KIND, Check
from harness.communication.tensor_values.value_check import value_findings
from harness.communication.tensor_values.values import TOO_LARGE, CallValues, Tensor
from suites.selftest.communication.samples import call, receive, send
from suites.selftest.communication.value_samples import tensor, values

NAN = float("nan")


def row(
    operation: str, given: Sequence[Any], got: Sequence[Any], dtype: str = "float32", **fields: Any
) -> dict[int, list[CallValues]]:
    """A call of ranks 0, 1, ... who give and get one tensor each; None for no tensor."""

    def tensors(numbers: Any) -> list[Tensor]:
        return [] if numbers is None else [tensor(numbers, dtype)]

    members = tuple(range(len(given)))
    return {
        rank: [values(operation, tensors(mine), tensors(theirs), members=members, **fields)]
        for rank, (mine, theirs) in enumerate(zip(given, got, strict=True))
    }


def changed(
    found: dict[int, list[CallValues]], rank: int, change: Callable[[CallValues], CallValues]
) -> dict[int, list[CallValues]]:
    """The same with another first call of a rank."""
    return {**found, rank: [change(found[rank][0]), *found[rank][1:]]}


def signed(v: CallValues, **fields: Any) -> CallValues:
    """The same with other fields of the call's signature."""
    return replace(v, call=replace(v.call, signature=replace(v.call.signature, **fields)))


def texts(found: dict[int, list[CallValues]], check: Check = Check.VALUES) -> list[str]:
    """What is found, of one kind."""
    return [each.text for each in value_findings(found) if each.check is check]


SUM = {"reduce_op": "SUM"}
WRONG = row("all_reduce", [[1, 2], [3, 4], [5, 6]], [[9, 12], [9, 12], [9, 13]], **SUM)


class CollectivesTest(unittest.TestCase):
    """Wrong numbers of collectives."""

    def test_words(self) -> None:
        """The rank, the number, its place, the call with its line, what it ought to be, and how many."""
        (found,) = value_findings(WRONG)
        self.assertEqual((found.check, found.ranks), (Check.VALUES, (2,)))
        self.assertEqual(
            found.text,
            "rank 2 got 13.0 at [1] of all_reduce #1 of the default group (t.py:20 in test_x), for 12.0: "
            "sum of float32 over ranks 0-2; 1 of 2 elements is wrong",
        )

    def test_alike(self) -> None:
        """Ranks that got the same wrong number are told together."""
        (found,) = value_findings(row("all_reduce", [[1], [3]], [[5], [5]], **SUM))
        self.assertEqual(found.ranks, (0, 1))
        self.assertIn("ranks 0, 1 got 5.0 at [0]", found.text)
        self.assertIn("; the only element", found.text)

    def test_right(self) -> None:
        """Each kind of collective, with right numbers, rounded ones among them."""
        for found in (
            row("all_reduce", [[0.1], [0.2]], [[0.3], [0.3]], **SUM),
            row("all_reduce", [[1, 0], [1, 1]], [[1, 1], [1, 1]], dtype="bool", **SUM),
            row("broadcast", [[1, 2], [3, 4]], [[3, 4], [3, 4]], root=1),
            row("broadcast", [[NAN], [NAN]], [[NAN], [NAN]], root=1),
            row("reduce", [[1], [2]], [[3], [7]], root=0, **SUM),  # the other's is not defined
            row("gather", [[1], [2]], [None, None], root=0),  # no list of outputs anywhere
            row("all_gather_into_tensor", [[1], [2]], [[1, 2], [1, 2]]),
            row("reduce_scatter_tensor", [[1, 2], [3, 4]], [[4], [6]], **SUM),
            row("all_to_all_single", [[1, 2], [3, 4]], [[1, 3], [2, 4]], sent=(1, 1)),
            row("all_reduce", [[NAN], [1]], [[NAN], [NAN]], **SUM),
            row("all_reduce", [[NAN], [1]], [[1], [NAN]], reduce_op="MAX"),
            row("all_reduce", [[3e38], [3e38]], [[float("inf")], [float("inf")]], **SUM),
        ):
            self.assertEqual(texts(found), [], found)

    def test_wrong(self) -> None:
        """Each kind of number has its form."""
        for found, words in (
            (row("all_reduce", [[NAN], [1]], [[1], [NAN]], **SUM), "rank 0 got 1.0 at [0]"),
            (row("all_reduce", [[1], [1]], [[NAN], [2]], **SUM), "got nan at [0]"),
            (row("all_reduce", [[3], [4]], [[7], [8]], dtype="int8", **SUM), "rank 1 got 8 at [0]"),
            (row("all_reduce", [[1], [2]], [[2], [1]], reduce_op="MAX"), "for 2.0: max of float32"),
            (row("all_reduce", [[1j], [1]], [[1], [1 + 1j]], "complex64", **SUM), "rank 0 got (1+0j) at"),
            (
                row("broadcast", [[[1, 2]], [[3, 4]]], [[[3, 4]], [[3, 5]]], root=1),
                "rank 1 got 5.0 at [0, 1]",
            ),
            (row("broadcast", [1, 3], [3, 1], root=1), "got 1.0 at [] of broadcast"),
            (row("broadcast", [[True], [False]], [[True], [True]], "bool", root=1), "got True at [0]"),
            (row("all_gather_into_tensor", [[1], [2]], [[1, 2], [2, 1]]), "float32 from ranks 0, 1; 2 of 2"),
            (row("broadcast", [[-0.0], [0.0]], [[0.0], [0.0]], root=0), "got 0.0 at [0]"),
            (row("broadcast", [[1 + 2**-23], [1]], [[1 + 2**-23], [1]], root=0), "for 1.00000012:"),
        ):
            with self.subTest(words):
                said = texts(found)
                self.assertTrue(any(words in each for each in said), said)

    def test_several_tensors(self) -> None:
        """Of a list of outputs the first wrong one is named."""
        mine, yours = tensor([1.0]), tensor([2.0])
        found = {
            rank: [values("all_gather", [given], [mine, got], members=(0, 1))]
            for rank, given, got in ((0, mine, yours), (1, yours, mine))
        }
        self.assertIn("rank 1 got 1.0 at [0] of tensor 1 of all_gather #1", texts(found)[0])

    def test_bytes(self) -> None:
        """A dtype that nobody calculates with is shown by its bytes."""
        one, two = Tensor("float8_e8m0fnu", (1,), b"\x7f"), Tensor("float8_e8m0fnu", (1,), b"\x80")
        found = {
            r: [values("broadcast", [one], [got], members=(0, 1), root=0)] for r, got in ((0, one), (1, two))
        }
        self.assertIn("rank 1 got 0x80 at [0]", texts(found)[0])

    def test_user_s_call(self) -> None:
        """What the backend does for an object collective is told by the user's call."""
        found = row("all_gather_into_tensor", [[1], [2]], [[1, 2], [2, 2]])
        named = {
            r: [replace(v, call=call("all_gather_object", state="ended", members=(0, 1))) for v in mine]
            for r, mine in found.items()
        }
        self.assertIn("of all_gather_object #1", texts(named)[0])

    def test_replicas(self) -> None:
        """Results that differ by rounding alone are remarked; equal ones, and other collectives', are not."""
        found = row("all_reduce", [[1.0], [2.0]], [[3.0], [3.0000002]], **SUM)
        self.assertEqual(texts(found), [])
        (said,) = texts(found, Check.REPLICAS)
        self.assertIn("rank 1 got 3.00000024 at [0] of all_reduce #1", said)
        self.assertIn("rank 0 3.0: right up to rounding, but not the same in 1 of 1 elements", said)

    def test_at_most(self) -> None:
        """Of many wrong calls the first are told."""
        one = WRONG
        many = {
            rank: [
                replace(v, call=replace(v.call, sequence=n, number=n, started_s=float(20 - n)))
                for v in mine
                for n in range(1, 9)
            ]
            for rank, mine in one.items()
        }
        said = texts(many)
        self.assertEqual(len(said), MOST_OF_A_KIND)
        self.assertIn("#8", said[0], "the first by time")


class NothingTest(unittest.TestCase):
    """Calls of which nothing can be said."""

    def test_not_compared(self) -> None:
        """Calls that raised, that others did not make, or whose arguments differ: that is told elsewhere."""
        for name, found in (
            ("raised", changed(WRONG, 0, lambda v: replace(v, raised=True))),
            ("raised in a wait", changed(WRONG, 0, lambda v: replace(v, call=replace(v.call, raised=True)))),
            ("missing", {rank: mine for rank, mine in WRONG.items() if rank}),
            ("arguments", changed(WRONG, 0, lambda v: signed(v, reduce_op="MAX"))),
            ("other backend's call", changed(WRONG, 0, lambda v: replace(v, operation="broadcast"))),
            ("unknown members", {0: [signed(WRONG[0][0], members=())]}),
        ):
            with self.subTest(name):
                self.assertEqual(value_findings(found), ())

    def test_left_out(self) -> None:
        """Calls without values are counted, by the reason."""
        found = changed(WRONG, 0, lambda v: replace(v, why_not=TOO_LARGE))
        (said,) = value_findings(found)
        self.assertEqual(said.check, Check.UNCOMPARED)
        self.assertEqual(said.text, "calls whose values were not compared: 1 too large")
        self.assertFalse(said.check.error)
        found = changed(WRONG, 0, lambda v: replace(v, outputs=None))
        self.assertEqual(
            texts(found, Check.UNCOMPARED), ["calls whose values were not compared: 1 never seen to end"]
        )
        found = row("all_reduce", [[1], [2]], [[3], [3]], reduce_op="AVG", dtype="int32")
        self.assertEqual(
            texts(found, Check.UNCOMPARED),
            ["calls whose values were not compared: 1 of operations or dtypes without a reference"],
        )


class MessagesTest(unittest.TestCase):
    """Messages that did not arrive as they were sent."""

    def sent(self, *numbers: float, **fields: Any) -> list[CallValues]:
        """Messages of one number each, to rank 1."""
        return [values("send", [tensor([n])], [], of=send(1, state="ended", **fields)) for n in numbers]

    def received(self, *numbers: float, source: int | None = 0, heard: int | None = None) -> list[CallValues]:
        """Messages as they arrived at rank 1; ``source`` None: from any source, ``heard`` from this one."""
        return [
            values("recv", [], [tensor([n])], of=receive(source, state="ended"), source=heard)
            for n in numbers
        ]

    def test_in_order(self) -> None:
        """The n-th message of a channel is the n-th receive's."""
        self.assertEqual(texts({0: self.sent(1.0, 2.0), 1: self.received(1.0, 2.0)}), [])
        (said,) = texts({0: self.sent(1.0, 2.0), 1: self.received(1.0, 3.0)})
        self.assertEqual(
            said,
            "rank 1 got 3.0 at [0] of recv from rank 0 (t.py:20 in test_x), for 2.0: float32 of the send to "
            "rank 1 (t.py:20 in test_x); the only element",
        )

    def test_from_any(self) -> None:
        """A receive from any source has one of the messages, and that of its source if it is known."""
        sends = {0: self.sent(1.0), 2: self.sent(2.0)}
        self.assertEqual(texts({**sends, 1: self.received(2.0, source=None)}), [])
        self.assertEqual(texts({**sends, 1: self.received(2.0, source=None, heard=2)}), [])
        self.assertEqual(len(texts({**sends, 1: self.received(2.0, source=None, heard=0)})), 1)
        self.assertEqual(len(texts({**sends, 1: self.received(3.0, source=None)})), 1)

    def test_nothing_said(self) -> None:
        """Of channels with a call that raised, and of lost messages."""
        raised = [replace(v, raised=True) for v in self.sent(1.0)]
        self.assertEqual(texts({0: [*raised, *self.sent(2.0)], 1: self.received(5.0)}), [])
        self.assertEqual(texts({0: self.sent(1.0, 2.0), 1: self.received(1.0)}), [])


if __name__ == "__main__":
    unittest.main()
