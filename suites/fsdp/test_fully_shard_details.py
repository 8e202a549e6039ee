"""What FSDP2 leaves as it is: arguments that are no tensors, states taken early, setters of attributes.

And the names of what it does in a profile.
"""

from __future__ import annotations

import copy
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy
from torch.profiler import ProfilerActivity, profile

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.fsdp import reference
from suites.fsdp.base import ROUNDED
from suites.fsdp.plain_copy import PlainCopyTestCase


class Scaled(nn.Module):
    """Multiplies by a weight and by arguments of other kinds, and gives them back."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(1.0, 5.0))

    def forward(self, x, times, *, name, also):
        return x * self.weight * times, name, also


class Noting(nn.Linear):
    """Notes which of its attributes are set."""

    def __setattr__(self, name, value):
        vars(self).setdefault("set_names", []).append(name)
        super().__setattr__(name, value)


class FullyShardDetailsTest(PlainCopyTestCase):
    """Two ranks."""

    def test_arguments_that_are_no_tensors(self):
        """Where floating tensors are cast, numbers, words and nothing at all come in and out as they are."""
        policy = MixedPrecisionPolicy(torch.bfloat16, output_dtype=torch.float32)
        model = self.fsdp2(Scaled(), mp_policy=policy)
        x = torch.full((4,), 1.5, device=self.device)
        product, name, also = model(x, 2, name="scaled", also=[None, 0.1, True])
        self.assertEqual(product, 3 * torch.arange(1.0, 5.0, device=self.device))
        self.assertEqual((name, also), ("scaled", [None, 0.1, True]))

    @needs(Capability.FUNCTIONAL)
    def test_state_that_was_taken_before_the_first_step(self):
        """It is the model's own memory, and has each step's numbers; also where rows cannot be cut evenly."""
        self.plain = nn.Sequential(nn.Linear(8, 7), nn.Tanh(), nn.Linear(7, 4)).to(self.device)
        model = self.fsdp2(copy.deepcopy(self.plain), nn.Linear)
        state = model.state_dict()
        optimizers = [torch.optim.SGD(each.parameters(), **reference.SGD) for each in (model, self.plain)]
        for _ in range(2):
            self.backward(model)
            self.backward_alone()
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        for name, value in self.plain.state_dict().items():
            self.assertEqual(state[name].full_tensor(), value, name, **ROUNDED)

    def test_parts_without_rows(self):
        """A rank that has no row of a parameter has all of its other dimensions."""
        model = self.fsdp2(nn.Linear(3, 1))
        rows = 1 - self.rank
        self.assertEqual(model.weight.to_local().shape, (rows, 3))
        self.assertEqual(model.bias.to_local().shape, (rows,))
        model(torch.ones(2, 3, device=self.device)).sum().backward()
        self.assertEqual(model.weight.grad.to_local().shape, (rows, 3))

    def test_classes_that_set_attributes_themselves(self):
        """Their setter is asked whenever parameters become whole or shards again."""
        self.plain.head = Noting(8, 4).to(self.device)
        model = self.made()
        for _ in range(2):
            model.head.set_names.clear()
            model.zero_grad()
            self.plain.zero_grad()
            self.backward(model)
            self.backward_alone()
            self.check_gradients(model)
            self.assertEqual(model.head.set_names.count("weight"), 2)

    def test_ranges_of_a_profile(self):
        """What each unit does in a step has a name in a profile, with that of the unit."""
        model = self.made()
        self.backward(model)  # what is asked for the first time has names of its own
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            self.backward(model)
        names = {each.name.removeprefix("FSDP::") for each in profiled.events() if "FSDP::" in each.name}
        self.assertLessEqual({"root_pre_forward", "root_post_backward_callback"}, names)
        of_each = "all_gather all_gather_copy_out pre_forward post_forward pre_backward"
        of_each += " post_backward_accumulate post_backward_reshard post_backward_reduce"
        for unit in ("blocks.0", "blocks.1"):
            self.assertLessEqual({f"{each} ({unit})" for each in of_each.split()}, names)


if __name__ == "__main__":
    run_tests()
