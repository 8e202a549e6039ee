"""A module's copy is restored to its state before a call."""

from __future__ import annotations

import unittest
from collections.abc import Callable

import torch
from torch.testing._internal.two_tensor import TwoTensor

from harness import TestCase
from harness.graphs.input_copies import Copier
from harness.graphs.module_restoring import is_restorable, restore
from harness.graphs.rebindings import module_tensors


class Inner(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
    """A module with a parameter, a buffer that is a view of it, a strided buffer, and a count."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(4.0))
        self.tail: torch.Tensor
        self.part: torch.Tensor
        self.register_buffer("tail", self.weight.detach()[2:])
        self.register_buffer("part", torch.arange(6.0)[::2])
        self.calls = 0


def outer() -> torch.nn.Module:
    """An ``Inner`` within another module."""
    return torch.nn.Sequential(Inner())


def inner(module: torch.nn.Module) -> Inner:
    """The ``Inner`` within a module."""
    found = module.get_submodule("0")
    assert isinstance(found, Inner)
    return found


class RestoreTest(TestCase):
    """The functions ``restore`` and ``is_restorable``."""

    def test_restored(self) -> None:
        """The tensors are the same objects; all of their memory and plain attributes are restored."""
        original = outer()
        copy = Copier().module(original)
        tensors = dict(module_tensors(copy))
        used = inner(copy)
        with torch.no_grad():
            used.weight.mul_(7)
            used.part.as_strided((6,), (1,), 0).zero_()
        used.part = used.part + 1
        used.calls += 1
        self.assertTrue(is_restorable(original, tensors))
        copier = Copier()
        restore(original, copy, tensors, copier)
        self.assertEqual(dict(module_tensors(copy)), dict(module_tensors(original)))
        for name, tensor in module_tensors(copy):
            self.assertIs(tensor, tensors[name])
        self.assertEqual(used.part.as_strided((6,), (1,), 0), torch.arange(6.0))
        self.assertEqual(used.calls, 0)
        weight, start = copier.tree([inner(original).weight, inner(original).weight.detach()[:1]])
        self.assertIs(weight, used.weight)
        self.assertEqual(start.untyped_storage()._cdata, used.weight.untyped_storage()._cdata)
        self.assertEqual([leaf for _, leaf in copier.leaves], [used.weight])
        self.assertEqual(inner(original).weight.detach(), torch.arange(4.0))

    def test_subclasses(self) -> None:
        """A wrapper subclass is restored part by part."""
        original = torch.nn.Module()
        original.register_buffer("two", TwoTensor(torch.ones(2), torch.zeros(2)))
        copy = Copier().module(original)
        tensors = dict(module_tensors(copy))
        tensors["buffer two"].add_(3)
        restore(original, copy, tensors, Copier())
        self.assertEqual((copy.two.a, copy.two.b), (torch.ones(2), torch.zeros(2)))

    def test_not_restorable(self) -> None:
        """A copy with other sizes or autograd metadata or freed memory, or a lazy one, is not restorable."""

        def frees(module: Inner) -> None:
            module.part.untyped_storage().resize_(0)

        changes: tuple[Callable[[Inner], object], ...] = (
            lambda module: module.part.unsqueeze_(0),
            lambda module: module.part.requires_grad_(),
            lambda module: module.weight.requires_grad_(False),
            frees,
        )
        for number, change in enumerate(changes):
            with self.subTest(number):
                original = outer()
                copy = Copier().module(original)
                change(inner(copy))
                self.assertFalse(is_restorable(original, dict(module_tensors(copy))))
        lazy = torch.nn.LazyLinear(2)
        self.assertFalse(is_restorable(lazy, dict(module_tensors(Copier().module(lazy)))))


if __name__ == "__main__":
    unittest.main()
