"""Tests which values are equal in snapshots, and how differences are described."""

from __future__ import annotations

import gc
import unittest
import weakref
from functools import partial
from typing import Any

import torch

from harness.graphs.train_step.snapshots import LONGEST, GuardSnapshot, shown, tensor_words


def of(**values: Any) -> GuardSnapshot:
    """A snapshot of values by name."""
    snapshot = GuardSnapshot()
    for name, value in values.items():
        snapshot.note(name, value)
    return snapshot


class Holder:
    """An object with a method."""

    def method(self) -> None:
        """Does nothing."""


class SameTest(unittest.TestCase):
    """Which values are equal in two snapshots."""

    def check(self, one: Any, other: Any, *, same: bool) -> None:
        self.assertIs(not of(value=one).differences(of(value=other)), same, (one, other))

    def test_plain_values_count_by_value_and_type(self) -> None:
        for one, other in ((1, 1), (0.5, 0.5), (float("nan"), float("nan")), ("a", "a"), (None, None)):
            self.check(one, other, same=True)
        for one, other in (
            (1, 2),
            (1, 1.0),
            (1, True),
            (0.0, -0.0),
            ("1", 1),
            (torch.float32, torch.float64),
        ):
            self.check(one, other, same=False)

    def test_containers_count_by_contents(self) -> None:
        self.check([1, {"a": (2, 3)}], [1, {"a": (2, 3)}], same=True)
        self.check([1, {"a": (2, 3)}], [1, {"a": (2, 4)}], same=False)
        self.check([1, 2], (1, 2), same=False)
        self.check({"b", "a", "c"}, {"c", "b", "a"}, same=True)

    def test_long_containers_count_by_length(self) -> None:
        many = list(range(LONGEST + 1))
        self.check(many, many[::-1], same=True)
        self.check(many, [*many, 0], same=False)

    def test_containers_may_hold_themselves(self) -> None:
        inner: list[Any] = []
        inner.append(inner)
        self.check(inner, inner, same=True)

    def test_functions_count_by_identity(self) -> None:
        self.check(len, len, same=True)
        self.check(lambda: 1, lambda: 1, same=False)
        self.check(partial(int, base=2), partial(int, base=2), same=True)
        self.check(partial(int, base=2), partial(int, base=8), same=False)

    def test_methods_count_by_function_and_object(self) -> None:
        one, other = Holder(), Holder()
        self.check(one.method, one.method, same=True)
        self.check(one.method, other.method, same=False)

    def test_a_function_stays_known_as_long_as_the_snapshot(self) -> None:
        def make() -> Any:
            return lambda: None

        function = make()
        seen, kept = weakref.ref(function), of(value=function)
        del function
        gc.collect()
        self.assertIsNotNone(seen(), "or another function may have its id")
        self.assertTrue(kept.differences(of(value=make())))

    def test_other_objects_count_by_type(self) -> None:
        self.check(Holder(), Holder(), same=True)
        self.check(Holder(), GuardSnapshot(), same=False)
        holder = Holder()
        self.check(weakref.ref(holder), weakref.ref(Holder()), same=True)

    def test_identity(self) -> None:
        one, other = Holder(), Holder()
        snapshots = [GuardSnapshot(), GuardSnapshot(), GuardSnapshot()]
        for snapshot, value in zip(snapshots, (one, one, other), strict=True):
            snapshot.note_identity("holder", value)
        self.assertEqual(snapshots[0].differences(snapshots[1]), [])
        self.assertEqual(len(snapshots[0].differences(snapshots[2])), 1)

    def test_tensors_count_by_what_they_are(self) -> None:
        self.check(torch.zeros(2, 3), torch.ones(2, 3), same=True)
        for other in (
            torch.zeros(3, 2),
            torch.zeros(2, 3, dtype=torch.float64),
            torch.zeros(3, 2).t(),
            torch.zeros(2, 3, requires_grad=True),
            torch.zeros(2, 3, device="meta"),
            torch.zeros(2, 3).to_sparse(),
        ):
            self.check(torch.zeros(2, 3), other, same=False)


class WordsTest(unittest.TestCase):
    """How values and differences are described."""

    def test_tensor(self) -> None:
        self.assertEqual(tensor_words(torch.zeros(2, 3)), "float32[2, 3]")
        strided = torch.zeros(3, 2, dtype=torch.int64, device="meta").t()
        self.assertEqual(tensor_words(strided), "int64[2, 3] stride (1, 2) meta")
        self.assertEqual(tensor_words(torch.zeros(1, requires_grad=True)), "float32[1] requires grad")

    def test_differences(self) -> None:
        before, after = of(a=1, b=2, c=3), of(a=1, b=5, d=4)
        found = ["b: 2 -> 5", "c: 3 -> nothing", "d: nothing -> 4"]
        self.assertEqual(before.differences(after), found)
        self.assertEqual(before.differences(after, ignored={"b", "d"}), found[1:2])

    def test_shown(self) -> None:
        self.assertEqual(shown(["a", "b"]), "a; b")
        self.assertEqual(shown(["a", "b", "c", "d", "e"]), "a; b; c; and 2 more")


if __name__ == "__main__":
    unittest.main()
