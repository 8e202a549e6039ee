"""``StepTestCase``, the base of the train step's tests, compares a compiled step with the same one in eager.

The process group has one rank. A gradient summed over one rank is itself, so the function run eagerly is the
reference for the compiled one.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import SGD, Optimizer

from harness import TestCase
from harness.graphs.train_step import COMPILED_OBJECT_KEY, CompiledStep, compile


def sum_step(module: nn.Module, optimizer: Optimizer, x: Tensor) -> Tensor:
    """A train step whose loss is the sum of the module's output."""
    loss: Tensor = module(x).sum()
    loss.backward()
    optimizer.step()
    return loss


def compiled_of(step: Any) -> CompiledStep:
    """The ``CompiledStep`` of a decorated function."""
    kept = step.__dict__[COMPILED_OBJECT_KEY]
    assert isinstance(kept, CompiledStep)
    return kept


def sgd(module: nn.Module) -> SGD:
    """An SGD optimizer, which keeps no state."""
    return SGD(module.parameters(), lr=0.1)


class StepTestCase(TestCase):
    """A test case in a process group of one rank, with models and comparisons for train steps."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        cls.addClassCleanup(dist.destroy_process_group)

    def linear(self) -> tuple[nn.Module, SGD, Tensor]:
        """A small module, its optimizer and an input, with the same numbers each time."""
        torch.manual_seed(0)
        module = nn.Linear(3, 2)
        return module, sgd(module), torch.randn(4, 3)

    def same_as_eager(
        self,
        module: nn.Module,
        function: Callable[..., Any] = sum_step,
        inputs: Sequence[Sequence[Any]] = (),
        optimizer: Callable[[nn.Module], Optimizer] = sgd,
        *,
        between: Callable[[nn.Module, Optimizer], object] | None = None,
        graphs: int = 1,
        **options: Any,
    ) -> CompiledStep:
        """Trains a module by the compiled step and a copy eagerly; results and states must be bitwise equal.

        There is one step for each of ``inputs``. ``between`` is called for both after each step. Returns the
        ``CompiledStep``, which must have ``graphs`` graphs in the end.
        """
        step = compile(**options)(function)
        pairs = [(each, optimizer(each)) for each in (module, copy.deepcopy(module))]
        for given in inputs or [[torch.randn(4, 3)] for _ in range(3)]:
            torch.manual_seed(1)
            found = step(*pairs[0], *copy.deepcopy(given))
            torch.manual_seed(1)
            expected = function(*pairs[1], *copy.deepcopy(given))
            pairs[1][0].zero_grad()
            states = [(dict(one.state_dict()), each.state_dict()["state"]) for one, each in pairs]
            self.assertEqual((found, states[0]), (expected, states[1]), rtol=0, atol=0)
            for pair in pairs if between else ():
                assert between is not None
                between(*pair)
        self.assertEqual(len(compiled_of(step).graphs), graphs)
        return compiled_of(step)
