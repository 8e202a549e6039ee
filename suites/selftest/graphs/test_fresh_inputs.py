"""``FreshInputs``: the inputs that it makes for each call, and the arguments that it refuses."""

from __future__ import annotations

import contextlib
import unittest
from typing import Any

import torch
from torch.testing._internal.two_tensor import TwoTensor

from harness import TestCase, UsageError
from harness.graphs.fresh_inputs import FreshInputs, can_be_called_again
from suites.selftest.graphs.verifying import inputs, writes

Made = tuple[list[torch.Tensor], list[torch.Tensor]]


class RefusedTest(TestCase):
    """Arguments of ``verify_aot`` that contradict each other, and callables that make unusable inputs."""

    def test_arguments(self) -> None:
        """Arguments that do not fit together raise a UsageError when they are given."""
        for text, given, options in (
            ("inputs is a Tensor: give a list", torch.ones(2), {}),
            (
                "tensor 1 of the inputs is int64 and cannot require grad",
                [torch.ones(3), torch.tensor([1])],
                {"requires_grad": True},
            ),
            ("has 1 values for 2 tensors", inputs(), {"requires_grad": [True]}),
            ("requires_grad=1: give True, False, or a list", inputs(), {"requires_grad": 1}),
            ("let the callable make them so", inputs, {"requires_grad": True}),
            ("inputs is a list: .* has to be a function", inputs(), {"subclasses": torch.no_grad}),
            ("inputs is a callable: .* context manager class", inputs, {"subclasses": torch.clone}),
        ):
            with self.subTest(text), self.assertRaisesRegex(UsageError, text):
                FreshInputs(given, **options)

    def test_callables(self) -> None:
        """A callable has to return leaves that receive gradients, and all leaves among the arguments."""

        def computed() -> Made:
            x = torch.ones(2, requires_grad=True) * 2
            return [x], [x, x]

        def unnamed() -> Made:
            x, y = inputs()
            return [x.requires_grad_()], [x * 1, y.requires_grad_()]

        for text, make in (
            ("has to return a pair", inputs),
            (r"leaf \[0\] that the callable inputs= makes is computed", computed),
            (r"input 1 \(b\) that the callable inputs= makes is a leaf that", unnamed),
        ):
            fresh = FreshInputs(make)
            with self.subTest(text), self.assertRaisesRegex(UsageError, text):
                fresh.prepare(writes)

    def test_retained_gradients(self) -> None:
        """A computed tensor may be named as a leaf if it retains its gradient."""

        def retained() -> Made:
            x = torch.ones(2, requires_grad=True) * 2
            x.retain_grad()
            return [x], [x * 1]

        self.assertEqual([name for name, _ in FreshInputs(retained).prepare(writes).leaves], ["leaf [0]"])


class PrepareTest(TestCase):
    """The method ``prepare``, which copies inputs."""

    def test_copies(self) -> None:
        """Each prepared call has copies of its own, under the names of the function's parameters."""
        given = inputs()
        fresh = FreshInputs(given)
        first, second = fresh.prepare(writes), fresh.prepare(writes)
        writes(*first.arguments)
        self.assertEqual(list(second.arguments), given)
        self.assertEqual([name for name, _ in second.inputs], ["input 0 (a)", "input 1 (b)"])
        self.assertIs(second.inputs[0][1], second.arguments[0])

    def test_leaves(self) -> None:
        """A leaf has the name of the input or of the views that are computed from it."""
        leaf = torch.ones(2, requires_grad=True)
        base = torch.ones(4, requires_grad=True) * 1
        for given, names in (
            ([leaf], ["input 0 (a)"]),
            ([leaf, leaf], ["input 0 (a)"]),
            ([torch.ones(2), leaf], ["input 1 (b)"]),
            ([base[:2], base[2:]], ["the base of input 0 (a) and input 1 (b)"]),
            ([torch.ones(2)], []),
        ):
            for writable in (False, True):
                with self.subTest(names=names, writable=writable):
                    prepared = FreshInputs(given, writable=writable).prepare(writes)
                    self.assertEqual([name for name, _ in prepared.leaves], names)
                    leaves = [tensor for tensor in prepared.arguments if tensor.is_leaf]
                    self.assertFalse(writable and any(tensor.requires_grad for tensor in leaves))

    def test_options_for_lists(self) -> None:
        """``requires_grad`` and ``subclasses`` are for the copies; the originals stay as they are."""
        given = inputs()
        fresh = FreshInputs(given, requires_grad=[False, True], subclasses=lambda x: TwoTensor(x, x + 1))
        prepared = fresh.prepare(writes)
        self.assertEqual([tensor.requires_grad for tensor in prepared.arguments], [False, True])
        self.assertEqual([type(tensor) for tensor in prepared.arguments], [TwoTensor] * 2)
        self.assertEqual([tensor.requires_grad for tensor in given], [False, False])
        self.assertFalse(fresh.come_from_callable)

    def test_subclasses_of_a_callable(self) -> None:
        """A callable makes the inputs anew for each call, while the context manager is active."""
        active: list[bool] = []
        made: list[bool] = []

        class Mode(contextlib.ExitStack):
            def __enter__(self) -> Any:
                active.append(True)
                self.callback(active.pop)
                return super().__enter__()

        def make() -> Made:
            made.append(bool(active))
            return [], inputs()

        fresh = FreshInputs(make, subclasses=Mode)
        self.assertTrue(fresh.come_from_callable)
        for _ in range(2):
            fresh.prepare(writes)
        self.assertEqual((made, active), ([True, True], []))

    def test_bindings(self) -> None:
        """The bindings are the objects at the time of the call, with the items of containers."""
        prepared = FreshInputs([{"x": torch.ones(2)}]).prepare(lambda batch: None)
        before = prepared.bindings()
        prepared.arguments[0]["n"] = 3
        self.assertEqual(list(before), ["input 0 (batch)['x']"])
        self.assertEqual(prepared.bindings().keys() - before.keys(), {"input 0 (batch)['n']"})


class ModuleTest(TestCase):
    """Prepared calls of a module."""

    def test_copied(self) -> None:
        """A module is copied with its tensors; an argument that is its parameter is the copy's parameter."""
        module = torch.nn.Linear(2, 2)
        prepared = FreshInputs([module.weight]).prepare(module)
        own = prepared.function
        assert isinstance(own, torch.nn.Linear)
        self.assertIsNot(own, module)
        self.assertIs(prepared.arguments[0], own.weight)
        names = ["input 0 (input)", "parameter weight", "parameter bias"]
        self.assertEqual([name for name, _ in prepared.inputs], names)

    def test_called_again(self) -> None:
        """The copy of an earlier call is used again, with the values that it had before that call."""
        module = torch.nn.BatchNorm1d(3)
        fresh = FreshInputs([torch.ones(4, 3)])
        first = fresh.prepare(module)
        first.function(*first.arguments)
        self.assertTrue(can_be_called_again(module, first))
        second = fresh.prepare(module, first)
        self.assertIs(second.function, first.function)
        self.assertEqual(dict(second.inputs)["buffer num_batches_tracked"], 0)

    def test_not_called_again(self) -> None:
        """A copy whose buffer has another shape cannot be called again; a plain function always can."""
        module = torch.nn.BatchNorm1d(3)
        prepared = FreshInputs([torch.ones(4, 3)]).prepare(module)
        dict(prepared.inputs)["buffer running_mean"].unsqueeze_(0)
        self.assertFalse(can_be_called_again(module, prepared))
        self.assertTrue(can_be_called_again(writes, FreshInputs(inputs()).prepare(writes)))


if __name__ == "__main__":
    unittest.main()
