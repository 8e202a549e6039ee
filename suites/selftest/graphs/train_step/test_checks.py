"""Tests which modules and optimizers are refused, because their step cannot be a graph."""

from __future__ import annotations

import copy
import unittest
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import distribute_module
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD

from harness.errors import UsageError
from harness.graphs.train_step import compile
from suites.selftest.graphs.train_step.step_test_case import StepTestCase, sgd, sum_step


class RefusedTest(StepTestCase):
    """Each is refused with a message of one line, before anything is traced or changed."""

    def refused(self, words: str, module: nn.Module, optimizer: Any = None) -> None:
        before = copy.deepcopy(dict(module.state_dict()))
        with self.assertRaisesRegex(UsageError, words) as caught:
            compile()(sum_step)(module, optimizer or sgd(module), torch.ones(4, 3))
        self.assertNotIn("\n", str(caught.exception))
        self.assertEqual(dict(module.state_dict()), before)

    def test_ddp(self) -> None:
        ddp = DistributedDataParallel(nn.Linear(3, 2))
        self.refused("module DistributedDataParallel is DistributedDataParallel", ddp)
        self.refused("module 0 is DistributedDataParallel", nn.Sequential(ddp))

    def test_no_parameters(self) -> None:
        self.refused(r"the module \(ReLU\) has no parameters", nn.ReLU(), sgd(nn.Linear(1, 1)))

    def test_distributed_parameters(self) -> None:
        module = distribute_module(nn.Linear(3, 2), init_device_mesh("cpu", (1,)))
        with self.assertRaisesRegex(UsageError, "weight is a DTensor"):
            compile()(sum_step)(module, sgd(module), torch.ones(4, 3))

    def test_parameters_that_are_not_there_yet(self) -> None:
        module = nn.LazyLinear(2)
        with self.assertRaisesRegex(UsageError, "weight is a UninitializedParameter"):
            compile()(sum_step)(module, sgd(module), torch.ones(4, 3))

    def test_gradients(self) -> None:
        module = nn.Linear(3, 2)
        module(torch.ones(4, 3)).sum().backward()
        self.refused(r"weight, bias: a parameter with a gradient when the step is called.*zero_grad", module)
        module.zero_grad()
        compile()(sum_step)(module, sgd(module), torch.ones(4, 3))

    def test_gradients_before_a_later_call(self) -> None:
        module, optimizer, x = self.linear()
        step = compile()(sum_step)
        step(module, optimizer, x)
        module(x).sum().backward()
        with self.assertRaisesRegex(UsageError, "a gradient when the step is called"):
            step(module, optimizer, x)

    def test_many_gradients(self) -> None:
        module = nn.Sequential(*[nn.Linear(3, 3) for _ in range(4)])
        module(torch.ones(4, 3)).sum().backward()
        self.refused(r"0\.weight, 0\.bias, 1\.weight, 1\.bias, 2\.weight and 3 more", module)

    def test_hooks(self) -> None:
        for kind in ("register_hook", "register_post_accumulate_grad_hook"):
            module = nn.Linear(3, 2)
            handle = getattr(module.bias, kind)(lambda gradient: None)
            self.refused("bias: a parameter with hooks", module)
            handle.remove()
            compile()(sum_step)(module, sgd(module), torch.ones(4, 3))

    def test_optimizer_of_another_module(self) -> None:
        module, other = nn.Linear(3, 2), nn.Linear(3, 2)
        groups: list[dict[str, list[Tensor]]] = [
            {"params": [module.weight]},
            {"params": [other.weight, other.bias]},
        ]
        optimizer = SGD(groups, lr=0.1)
        self.refused("group 1 of the optimizer has 2 parameters that are not the module's", module, optimizer)


if __name__ == "__main__":
    unittest.main()
