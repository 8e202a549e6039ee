"""Tests that tensors of a module and an optimizer are replaced everywhere, and that all of it is undone."""

from __future__ import annotations

import unittest
import warnings

import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.optim.lr_scheduler import ConstantLR

from harness.graphs.train_step.substitution import put_back_after, substitute


class Model(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A module with a buffer, which keeps its parameter in a list as well, as recurrent layers do."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(2, 1, bias=False)
        self.register_buffer("count", torch.zeros(1))
        self.flat = [self.inner.weight]
        self.seen: list[int] = []


def trained() -> tuple[Model, SGD]:
    """A module and its optimizer, which has state."""
    module = Model()
    optimizer = SGD(module.parameters(), lr=0.1, momentum=0.5)
    module.inner(torch.ones(1, 2)).backward()
    optimizer.step()
    optimizer.zero_grad()
    return module, optimizer


class SubstituteTest(unittest.TestCase):
    """The function ``substitute``, which replaces tensors wherever they are kept."""

    def test_every_place(self) -> None:
        """Parameters, buffers, lists of tensors, optimizer state and param groups get the new tensors."""
        module, optimizer = trained()
        old = [module.inner.weight, module.count]
        old.append(optimizer.state[module.inner.weight]["momentum_buffer"])
        weight, count, momentum = new = [nn.Parameter(torch.ones_like(each)) for each in old]
        with put_back_after(module, optimizer):
            substitute(module, optimizer, dict(zip(map(id, old), new, strict=True)))
            self.assertIs(module.inner.weight, weight)
            self.assertIs(module.count, count)
            self.assertIs(module.flat[0], weight)
            self.assertIs(optimizer.param_groups[0]["params"][0], weight)
            self.assertIs(optimizer.state[weight]["momentum_buffer"], momentum)
            self.assertEqual(len(optimizer.state), 1)
            self.assertEqual(optimizer.state[torch.ones(1)], {}, "the state is still a defaultdict")

    def test_other_tensors_stay(self) -> None:
        """Tensors that are not among those to replace stay in their places."""
        module, _ = trained()
        weight = module.inner.weight
        with put_back_after(module, None):
            substitute(module, None, {id(module.count): torch.ones(1)})
            self.assertIs(module.inner.weight, weight)
            self.assertIs(module.flat[0], weight)
            self.assertEqual(module.count, torch.ones(1))


class PutBackTest(unittest.TestCase):
    """The context manager ``put_back_after``."""

    def test_restores_everything(self) -> None:
        """Whatever a step assigns, adds, removes or appends is undone, even after an error."""
        module, optimizer = trained()
        weight, state, flat = module.inner.weight, optimizer.state, module.flat
        with self.assertRaisesRegex(RuntimeError, "the step's own"), put_back_after(module, optimizer):
            substitute(module, optimizer, {id(weight): nn.Parameter(torch.ones(1, 2))})
            module.seen.append(1)
            module.register_buffer("late", torch.zeros(1))
            module.other = 3
            del module.count
            module.inner = nn.Identity()
            optimizer.param_groups[0]["lr"] = 5.0
            optimizer.state.clear()
            raise RuntimeError("the step's own")
        self.assertIs(module.inner.weight, weight)
        self.assertIs(module.flat, flat)
        self.assertIs(flat[0], weight)
        self.assertEqual((module.seen, list(dict(module.named_buffers()))), ([], ["count"]))
        self.assertFalse(hasattr(module, "other"))
        self.assertEqual(optimizer.param_groups[0]["lr"], 0.1)
        self.assertIs(optimizer.param_groups[0]["params"][0], weight)
        self.assertIs(optimizer.state, state)
        self.assertEqual([type(each) for each in state[weight].values()], [Tensor])

    def test_keeps_the_optimizers_records(self) -> None:
        """A step in the context counts for schedulers, which warn if the optimizer has made none."""
        module, optimizer = trained()
        scheduler = ConstantLR(optimizer)
        with put_back_after(module, optimizer):
            optimizer.step()
            optimizer.own = True
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            scheduler.step()
        self.assertFalse(hasattr(optimizer, "own"))


if __name__ == "__main__":
    unittest.main()
