"""FSDP2's options, alone and together: what one process computes that does for all ranks what they say."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from harness import load_tests, run_tests, same_draws  # noqa: F401  (unittest calls load_tests)
from suites.fsdp import reference
from suites.fsdp.base import FsdpTestCase
from suites.fsdp.sharding_options import IGNORED, Alone, Options, ScaledNet, loss_of, options

#: What the order of sums changes in float32. Sums in bfloat16 are of two ranks, and have but one order.
ROUNDED = {"rtol": 1e-5, "atol": 5e-6}
#: From the second step on parameters may differ by that much, which bfloat16 rounds to another number.
LOW = {"rtol": 2.0**-6, "atol": 5e-4}
BF16 = torch.bfloat16


class FullyShardOptionsTest(FsdpTestCase):
    """Two steps on two ranks, with rows of their own, not compiled."""

    def sharded(self, model, chosen):
        """The model sharded in place by ``chosen``."""
        model.to(self.device)
        for block in model.blocks if chosen.blocks else ():
            fully_shard(block, **chosen.of(block, root=False))
        sharded = fully_shard(model, **chosen.of(model, root=True))
        if chosen.factor is not None:
            for module in sharded.modules():
                if hasattr(module, "set_gradient_divide_factor"):
                    module.set_gradient_divide_factor(chosen.factor)
                    module.set_force_sum_reduction_for_comms(True)
        return sharded

    def batches(self, count):
        """For each rank so many batches of inputs and targets, the same on all ranks."""
        drawn = [reference.batches(1, self.world_size, ScaledNet.WIDTHS)[0] for _ in range(count)]
        return [[(b.of(r).inputs, b.of(r).targets) for b in drawn] for r in range(self.world_size)]

    def step(self, sharded, chosen, batches):
        """The backward passes of a step."""
        for number, (inputs, targets) in enumerate(batches):
            last = number + 1 == len(batches)
            sharded.set_requires_gradient_sync(chosen.syncs or last)
            # The optimizer is to see shards.
            sharded.set_reshard_after_backward(chosen.reshard_after_backward or last)
            output = sharded(inputs.to(self.device))
            self.assertEqual(output.dtype, chosen.given, str(chosen))
            loss_of(output, targets.to(self.device)).backward()

    def local(self, tensor):
        """This rank's part of a tensor, on the CPU."""
        return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach().cpu()

    def part(self, whole, chosen):
        """This rank's part of a whole."""
        parts, dim = whole.chunk(self.world_size, chosen.dim(whole)), chosen.dim(whole)
        return parts[self.rank] if self.rank < len(parts) else whole.narrow(dim, 0, 0)

    def check(self, chosen):
        """Train by ``chosen`` and compare this rank's gradients and parameters after each step."""
        model = ScaledNet()
        alone = Alone(model, chosen, self.world_size)
        sharded = self.sharded(model, chosen)
        # By foreach, the default on accelerators, torch takes no plain parameter beside DTensors.
        optimizer = torch.optim.SGD(sharded.parameters(), lr=0.1, foreach=False)
        for number in range(2):
            # The one process is on the CPU, whose products are rounded in another order.
            low = BF16 in (chosen.param, chosen.reduce) and (number or self.device.type != "cpu")
            tolerance = LOW if low else ROUNDED
            optimizer.zero_grad(set_to_none=not chosen.keeps)
            batches = self.batches(chosen.batches)
            self.step(sharded, chosen, batches[self.rank])
            expected = alone.gradients(self.rank, batches)
            for name, parameter in sharded.named_parameters():
                msg = f"{name} in step {number} of {chosen}"
                ignored = chosen.ignores and name == IGNORED
                self.assertIs(isinstance(parameter, DTensor), not ignored, msg)
                self.assertEqual(parameter.grad.dtype, torch.float32, msg)
                whole = expected[name]
                part = whole if ignored else self.part(whole, chosen)
                self.assertEqual(self.local(parameter.grad), part, msg, **tolerance)
            optimizer.step()
            self.follow(alone, batches, chosen)
            for name, parameter in alone.plain.named_parameters():
                ignored = chosen.ignores and name == IGNORED
                part = alone.ignored[self.rank] if ignored else self.part(parameter, chosen)
                own = self.local(dict(sharded.named_parameters())[name])
                self.assertEqual(own, part.detach(), f"{name} after step {number} of {chosen}", **tolerance)

    def follow(self, alone, batches, chosen):
        """Have the one process take the step of all ranks."""
        found = [alone.gradients(rank, batches) for rank in range(self.world_size)]
        with torch.no_grad():
            for rank, ignored in enumerate(alone.ignored):
                ignored -= 0.1 * found[rank][IGNORED]
            for name, parameter in alone.plain.named_parameters():
                if not (chosen.ignores and name == IGNORED):
                    parameter -= 0.1 * found[0][name]

    def test_each_alone(self):
        """Each option at values that are not its default, the others at theirs."""
        for chosen in (
            Options(param=BF16),
            Options(param=BF16, reduce=torch.float32, batches=3, syncs=False),
            Options(reduce=BF16),
            Options(param=BF16, output=torch.float32),
            Options(batches=2),
            Options(batches=3, syncs=False, blocks=True),
            Options(batches=2, syncs=False, reshard_after_backward=False, reshard_after_forward=False),
            Options(ignores=True, batches=2, syncs=False),
            Options(offloads=True),
            Options(columns=True),
            Options(factor=1.0),
            Options(factor=5.0, reduce=BF16, blocks=True),
            Options(keeps=True),
        ):
            self.check(chosen)

    def test_together(self):
        """Options that are drawn, each by itself."""
        for chosen in same_draws(options(), 12, confirm=True):
            self.check(chosen)


if __name__ == "__main__":
    run_tests()
