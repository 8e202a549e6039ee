"""Tests which tensors of a module and an optimizer are lifted, and what else of them a snapshot notes."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.optim import SGD, Adam

from harness.graphs.train_step.snapshots import GuardSnapshot
from harness.graphs.train_step.state import (
    describe_lifted,
    describe_modes,
    describe_module,
    describe_optimizer,
    lift_state,
)
from suites.selftest.graphs.train_step.step_test_case import sum_step


def noted(describe: Callable[..., object], *described: Any) -> GuardSnapshot:
    """A snapshot of what ``describe`` notes."""
    snapshot = GuardSnapshot()
    describe(*described, snapshot)
    return snapshot


class LiftedTest(unittest.TestCase):
    """The functions ``lift_state`` and ``describe_lifted``."""

    def test_names_and_order(self) -> None:
        """Parameters come first, then buffers, then the optimizer's state in the parameters' order."""
        module = nn.Sequential(nn.Linear(2, 1, bias=False), nn.BatchNorm1d(1, affine=False))
        module.append(nn.Linear(1, 1, bias=False))
        optimizer = Adam([module[2].weight, module[0].weight])
        sum_step(module, optimizer, torch.ones(3, 2))
        buffers = ("running_mean", "running_var", "num_batches_tracked")
        state = ("step", "exp_avg", "exp_avg_sq")
        lifted = lift_state(module, optimizer)
        self.assertEqual(
            list(lifted),
            [
                *(f"parameter {number}.weight" for number in (0, 2)),
                *(f"buffer 1.{name}" for name in buffers),
                *(f"optimizer state {number}.weight.{key}" for number in (0, 2) for key in state),
            ],
        )
        self.assertIs(lifted["parameter 2.weight"], module[2].weight)
        self.assertIs(lifted["optimizer state 0.weight.step"], optimizer.state[module[0].weight]["step"])
        self.assertEqual(len(lift_state(module, None)), 5)

    def test_one_tensor_under_two_names(self) -> None:
        """A shared parameter is lifted under both names, and a snapshot notes that it is shared."""
        tied, apart = (nn.Sequential(nn.Linear(2, 2, bias=False), nn.Linear(2, 2, bias=False)) for _ in "ab")
        tied[1].weight = tied[0].weight
        lifted = lift_state(tied, None)
        self.assertEqual(list(lifted), ["parameter 0.weight", "parameter 1.weight"])
        self.assertEqual(
            noted(describe_lifted, lift_state(apart, None)).differences(noted(describe_lifted, lifted)),
            ["parameter 1.weight is: nothing -> 'parameter 0.weight'"],
        )


class DescribedTest(unittest.TestCase):
    """The functions that note what is not lifted."""

    def test_module(self) -> None:
        """Classes, constants, modes and hooks of all parts count; the numbers in parameters do not."""
        changes: tuple[tuple[Callable[[Any], object], str], ...] = (
            (lambda m: m[1].eval(), "module 1 training: True -> False"),
            (lambda m: setattr(m[1], "p", 0.25), "module 1 p: 0.5 -> 0.25"),
            (lambda m: m[0].register_forward_hook(print), "module 0 _forward_hooks: "),
            (lambda m: m.__setitem__(1, nn.Identity()), "class of module 1: Dropout"),
            (lambda m: m.append(nn.ReLU()), "class of module 2: nothing -> ReLU"),
        )
        for change, words in changes:
            module = nn.Sequential(nn.Linear(1, 1), nn.Dropout())
            before = noted(describe_module, module)
            with torch.no_grad():
                module[0].weight.add_(1)
            self.assertEqual(before.differences(noted(describe_module, module)), [])
            change(module)
            found = before.differences(noted(describe_module, module))
            self.assertTrue(any(each.startswith(words) for each in found), (words, found))

    def test_optimizer(self) -> None:
        """Groups, hyper-parameters, hooks and numbers in the state count; the tensors in it do not."""
        module = nn.Linear(2, 1)
        changes: tuple[tuple[Callable[[Any], object], str], ...] = (
            (lambda o: o.param_groups[0].update(nesterov=True), "optimizer group 0 nesterov: False -> True"),
            (lambda o: o.add_param_group({"params": module.bias}), "optimizer group 1 params: nothing"),
            (lambda o: o.register_step_post_hook(print), "optimizer _optimizer_step_post_hooks: "),
            (lambda o: o.state[module.weight].update(calls=2), "optimizer state weight.calls: 1 -> 2"),
            (lambda o: setattr(o, "limit", 3), "optimizer limit: nothing -> 3"),
        )
        for change, words in changes:
            optimizer = SGD([module.weight], lr=0.1, momentum=0.5)
            optimizer.state[module.weight] = {"momentum_buffer": torch.zeros(1, 2), "calls": 1}
            before = noted(describe_optimizer, module, optimizer)
            optimizer.state[module.weight]["momentum_buffer"] = torch.ones(1, 2)
            self.assertEqual(before.differences(noted(describe_optimizer, module, optimizer)), [])
            change(optimizer)
            found = before.differences(noted(describe_optimizer, module, optimizer))
            self.assertTrue(any(each.startswith(words) for each in found), (words, found))

    def test_modes(self) -> None:
        """Grad mode, autocast with its dtype, and the default device count."""
        before = noted(describe_modes)
        for mode, words in (
            (torch.no_grad(), "grad mode: True -> False"),
            (torch.autocast("cpu", torch.bfloat16), "autocast on cpu: None -> torch.bfloat16"),
            (torch.device("meta"), "default device: device(type='cpu') -> device(type='meta')"),
        ):
            with mode:
                self.assertIn(words, before.differences(noted(describe_modes)))
            self.assertEqual(before.differences(noted(describe_modes)), [])


if __name__ == "__main__":
    unittest.main()
