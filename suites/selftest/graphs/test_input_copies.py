"""``Copier``: copies are independent of the originals and alias each other as the originals do."""

from __future__ import annotations

import unittest
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.testing._internal.two_tensor import TwoTensor

from harness import TestCase, UsageError
from harness.graphs.input_copies import Copier


def grown(*shape: int) -> torch.Tensor:
    """A leaf of distinct values that requires grad."""
    return torch.arange(1.0, 1 + torch.Size(shape).numel()).reshape(shape).clone().requires_grad_()


def share(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether two tensors share a storage."""
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)


class CopierTest(TestCase):
    """Copies of tensors, containers and modules."""

    def assertAlike(self, copy: torch.Tensor, original: torch.Tensor) -> None:
        """The copy has the original's values, dtype, strides and autograd metadata, in its own storage."""
        self.assertEqual(copy.detach(), original.detach(), exact_stride=True)
        self.assertFalse(share(copy, original))
        for name in ("requires_grad", "is_leaf"):
            self.assertEqual(getattr(copy, name), getattr(original, name), name)
        self.assertEqual(copy.storage_offset(), original.storage_offset())
        self.assertIs(type(copy), type(original))

    def test_plain(self) -> None:
        """Copies of many kinds of single tensors are like their originals."""
        base = torch.arange(12.0).reshape(3, 4)
        plain = [
            base,
            base[1:].t(),
            grown(2),
            grown(2) * 2,
            torch.nn.Parameter(torch.ones(2)),
            torch.tensor([1 + 2j]).conj(),
            torch.tensor([True]),
            torch.ones(3, dtype=torch.int8).expand(2, 3),
            torch.empty(0),
        ]
        for original, copy in zip(plain, Copier().tree(plain), strict=True):
            self.assertAlike(copy, original)

    def test_shared_storage(self) -> None:
        """Tensors that share a storage without being views share one in the copy."""
        x = torch.arange(6.0)
        one, other = Copier().tree([x.detach()[2:], x.detach()[:4]])
        self.assertTrue(share(one, other))
        one[0] = 7
        self.assertEqual(other[2], 7)
        self.assertEqual(x[2], 2)

    def test_views(self) -> None:
        """A view's copy is a view of the base's copy for autograd, and gradients reach the base's leaf."""
        leaf = grown(2, 3)
        base = leaf * 1
        given = [base.t(), base, base[0]]
        copier = Copier()
        transposed, copied, row = copier.tree(given)
        for copy, original in zip((transposed, copied, row), given, strict=True):
            self.assertAlike(copy, original)
        self.assertIs(transposed._base, copied)
        self.assertIs(row._base, copied)
        row.mul_(2)
        self.assertEqual(transposed.detach()[:, 0], 2 * leaf.detach()[0])
        ((original, copied_leaf),) = copier.leaves
        self.assertIs(original, base)
        transposed.sum().backward()
        self.assertEqual(copied_leaf.grad, torch.tensor([[2.0] * 3, [1.0] * 3]))

    def test_detached_alias(self) -> None:
        """A detached tensor's copy shares the storage of the other copy, and requires no grad."""
        base = grown(3) * 1
        copied, detached = Copier().tree([base, base.detach()])
        self.assertTrue(share(copied, detached))
        self.assertFalse(detached.requires_grad)

    def test_view_under_no_grad(self) -> None:
        """The copy of a view taken under ``no_grad`` has the same autograd metadata."""
        base = grown(3) * 1
        with torch.no_grad():
            view = base[1:]
        _, copy = Copier().tree([base, view])
        self.assertAlike(copy, view)

    def test_twice(self) -> None:
        """A tensor that occurs twice is copied once, in containers too; other objects are passed on."""
        x, other = torch.ones(2), object()
        one, inside = Copier().tree([x, {"x": (x,), "other": other}])
        self.assertIs(inside["x"][0], one)
        self.assertIs(inside["other"], other)

    def test_writable(self) -> None:
        """With ``writable`` a copy that requires grad is not a leaf, and its aliases share its memory."""
        leaf = grown(4)
        copier = Copier(writable=True)
        copy, half = copier.tree([leaf, leaf[2:]])
        half.mul_(3)
        self.assertEqual(copy.detach(), torch.tensor([1.0, 2, 9, 12]))
        copy.sum().backward()
        self.assertEqual(copier.leaves[0][1].grad, torch.tensor([1.0, 1, 3, 3]))
        self.assertEqual(leaf.detach(), torch.tensor([1.0, 2, 3, 4]))

    def test_writable_leaf_views(self) -> None:
        """With ``writable``, leaf views of a base without grad may be written to, and share its memory."""
        plain = torch.arange(4.0)
        for what, leaf, beside in (
            ("alone", torch.arange(4.0).reshape(2, 2).requires_grad_(), None),
            ("beside the base", plain.view(2, 2).requires_grad_(), plain),
            ("a part", torch.arange(4.0)[1:].requires_grad_(), None),
        ):
            with self.subTest(what):
                copier = Copier(writable=True)
                copy, other = copier.tree([leaf, beside])
                self.assertEqual((copy.requires_grad, copy.is_leaf), (True, False))
                copy.mul_(2)
                self.assertEqual(copy.detach(), 2 * leaf.detach())
                if beside is not None:
                    self.assertEqual(other, 2 * beside)
                copy.sum().backward()
                ((original, behind),) = copier.leaves
                self.assertIs(original, leaf)
                self.assertEqual(behind.grad, torch.full_like(leaf, 2))

    def test_requires_grad(self) -> None:
        """``requires_grad`` sets the flag of copies, also of views of a base without grad."""
        x, y = torch.arange(4.0), grown(2)
        view = x.view(2, 2)
        copier = Copier(requires_grad={id(view): True, id(y): False})
        for copy, wanted in zip(copier.tree([view, y]), (True, False), strict=True):
            self.assertEqual((copy.requires_grad, copy.is_leaf), (wanted, True))
        self.assertEqual(len(copier.leaves), 1)

    def test_modules(self) -> None:
        """A module's tensors alias the other copies, and the Copier's options do not apply to them."""

        class Module(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.arange(4.0))
                self.again = self.weight
                self.end: torch.Tensor
                self.register_buffer("end", self.weight.detach()[2:])
                self.plain = torch.ones(2)

        module = Module()
        module.weight.sum().backward()
        copier = Copier(
            wrap=lambda tensor: TwoTensor(tensor, tensor),
            writable=True,
            requires_grad={id(module.weight): False, id(module.end): True},
        )
        copy = copier.module(module)
        assert isinstance(copy, Module)
        weight, half, tail, other = copier.tree([module.weight, module.end, module.end[1:], grown(2)])
        self.assertAlike(copy.weight, module.weight)
        self.assertIsNone(copy.weight.grad)
        for name, one, same in (
            ("argument", weight, copy.weight),
            ("tied", copy.again, copy.weight),
            ("view", half, copy.end),
        ):
            self.assertIs(one, same, name)
        self.assertTrue(share(copy.end, copy.weight))
        self.assertTrue(share(tail, copy.weight))
        self.assertFalse(copy.end.requires_grad)
        self.assertEqual((type(other), other.is_leaf), (TwoTensor, False))
        self.assertFalse(share(copy.plain, module.plain))

    def test_lazy_modules(self) -> None:
        """A lazy module is copied, and a call of the copy leaves the original without sizes."""
        module = torch.nn.LazyLinear(2)
        copy = Copier().module(module)
        copy(torch.ones(1, 3))
        self.assertTrue(is_lazy(module.weight))
        self.assertEqual(copy.weight.shape, (2, 3))

    def test_given_up_storage(self) -> None:
        """A tensor whose storage was freed has a copy whose storage is empty, too."""
        x = torch.zeros(8)
        x.untyped_storage().resize_(0)
        copy = Copier().tensor(x)
        self.assertEqual((copy.untyped_storage().nbytes(), copy.shape), (0, (8,)))

    def test_subclasses(self) -> None:
        """Wrapper subclasses and their views are copied by parts; ``wrap`` makes them from plain tensors."""
        two = TwoTensor(torch.ones(2, 2), torch.zeros(2, 2)).requires_grad_()
        copy = Copier().tensor(two)
        self.assertEqual((type(copy), copy.requires_grad, copy.is_leaf), (TwoTensor, True, True))
        self.assertEqual((copy.a, copy.b), (torch.ones(2, 2), torch.zeros(2, 2)))
        self.assertFalse(share(copy.a, two.a))

        def wrap(tensor: torch.Tensor) -> Any:
            return TwoTensor(tensor, tensor * 2)

        x = grown(2, 2)
        base, row = Copier(wrap=wrap).tree([x, x[0]])
        self.assertIs(row._base, base)
        self.assertEqual(row.b, torch.tensor([2.0, 4.0]))
        self.assertTrue(base.is_leaf)

    def test_sparse(self) -> None:
        """A sparse tensor is copied."""
        x = torch.eye(2).to_sparse()
        copy = Copier().tensor(x)
        self.assertIsNot(copy, x)
        self.assertEqual(copy.to_dense(), torch.eye(2))

    def test_refused(self) -> None:
        """A ``wrap`` function that changes the shape is refused."""
        with self.assertRaisesRegex(UsageError, r"an input cannot be copied \(shape \(1,\) for \(2,\)\)"):
            Copier(wrap=lambda tensor: tensor[:1]).tensor(torch.ones(2))


if __name__ == "__main__":
    unittest.main()
