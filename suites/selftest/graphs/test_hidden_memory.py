"""Memory that inputs do not show, and leaves that are not inputs, are found and compared."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.testing._internal.two_tensor import TwoTensor

from harness import TestCase
from harness.graphs import verify_aot
from harness.graphs.hidden_memory import hidden_tensors
from suites.selftest.graphs.verifying import Changed, Function, VerifyTestCase


def column(*leaves: torch.Tensor) -> list[torch.Tensor]:
    """One column of a matrix of two."""
    return [torch.ones(3, 2)[:, 0]]


def doubles(a: torch.Tensor) -> None:
    """Write to the argument."""
    a.mul_(2)


def also(change: Callable[[torch.Tensor], Any]) -> Changed:
    """A front end whose compiled functions also apply ``change`` to their first argument."""

    def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
        out = compiled(*arguments)
        with torch.no_grad():
            change(arguments[0])
        return out

    return Changed(call)


class SurroundingsTest(VerifyTestCase):
    """``verify_aot`` with compiled functions that write to hidden tensors."""

    def test_beside_a_view(self) -> None:
        """A write beside a view is found, but not reported where the view itself differs."""
        verify_aot(doubles, column())
        plain: dict[str, Any] = {"function": doubles, "requires_grad": None, "test_mutation": False}
        self.assertDiffers(
            "the memory around input 0 (a): values differ: at [1] 0.0 compiled, 1.0 in eager "
            "(3 of 6 elements) after the call",
            inputs=column(),
            front_end=also(lambda a: a.as_strided((3,), (2,), 1).zero_()),
            **plain,
        )
        message = self.assertDiffers(
            "input 0 (a): values differ: at [0] 0.0 compiled, 2.0 in eager (3 of 3 elements) after the call",
            inputs=column(),
            front_end=also(lambda a: a.as_strided((6,), (1,)).zero_()),
            **plain,
        )
        self.assertNotIn("around", message)

    def test_leaves(self) -> None:
        """A write to the leaf that an argument is computed from is found."""
        leaf: list[torch.Tensor] = []

        def made() -> tuple[Sequence[Any], Sequence[Any]]:
            leaf[:] = [torch.ones(2, requires_grad=True)]
            return leaf, [leaf[0] * 1]

        self.assertDiffers(
            "leaf [0]: values differ: at [0] 0.0 compiled, 1.0 in eager (2 of 2 elements) after the call",
            function=doubles,
            inputs=made,
            requires_grad=None,
            front_end=also(lambda a: leaf[0].zero_()),
        )


class HiddenTensorsTest(TestCase):
    """The function ``hidden_tensors``, on inputs that share storages."""

    def test_storages(self) -> None:
        """A storage is returned if inputs of one dtype show only a part of it and its data can be read."""
        x = torch.arange(4.0)
        given_up = torch.zeros(8)
        given_up.untyped_storage().resize_(0)
        for what, tensors, names in (
            ("all of it", [x], []),
            ("all of it, in two parts", [x[:2], x[2:]], []),
            ("all of it, transposed", [x.view(2, 2).t()], []),
            ("a part", [x[1:]], ["the memory around 0"]),
            ("two parts", [x[:1], x[3:]], ["the memory around 0"]),
            ("two storages", [x[1:], x.clone()[1:]], ["the memory around 0", "the memory around 1"]),
            ("two dtypes", [x[1:], x.view(torch.int32)[1:]], []),
            ("no data", [given_up], []),
            ("sparse", [torch.eye(2).to_sparse()], []),
            ("a wrapper", [TwoTensor(x[1:], x[1:])], []),
            ("meta", [torch.ones(2, device="meta")[1:]], []),
            ("nothing of it", [x[:0]], ["the memory around 0"]),
        ):
            with self.subTest(what):
                found = hidden_tensors([(str(index), tensor) for index, tensor in enumerate(tensors)], [])
                self.assertEqual([name for name, _ in found], names)
        ((_, flat),) = hidden_tensors([("x", x[1:])], [])
        self.assertEqual(flat, x)

    def test_leaves(self) -> None:
        """Leaves that are not inputs are returned, under names that no input has."""
        x, y, z = torch.ones(1), torch.ones(1), torch.ones(1)
        found = hidden_tensors([("x", x), ("y", y)], [("x", x), ("y", z), ("leaf", z)])
        self.assertEqual([name for name, _ in found], ["the leaf behind y", "leaf"])


if __name__ == "__main__":
    unittest.main()
