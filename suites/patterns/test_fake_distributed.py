"""An imitation of FSDP for a world of two, in one process: gather before use, shrink after, keep one shard.

What it does to storages while a backward is compiled has ended the interpreter by SIGSEGV (a plain ``copy_``
into the gathered storage in place of ``fsdp.copy_``; CPU inductor, torch 2.13). So each test runs in a rank:
a crash costs that test.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed.fsdp  # registers torch.ops.fsdp.copy_
from torch import nn
from torch._dynamo.testing import CompileCounter
from torch._functorch import config as functorch_config

from harness import DistributedTestBase, load_tests, requires_cuda, run_tests  # noqa: F401
from harness.cases.dynamo import clean_compiler
from suites.inductor import settle
from suites.patterns.base import PatternTestCase, accelerator, autograd_compiled_by, fullgraph, steps

SEED = 1234
WORLD_SIZE = 2


def all_gather(shard):
    """Imitate: each rank's shard is this one."""
    with torch.no_grad():
        return torch.cat([shard] * WORLD_SIZE)


def reduce_scatter(tensor):
    """Imitate: this rank's part, of numbers that are summed already."""
    with torch.no_grad():
        return tensor[: tensor.size(0) // WORLD_SIZE].clone()


class Fsdp:
    """Hooks that keep a layer's weight as a shard, but for its forward and its backward."""

    def __init__(self, model):
        self.model = model
        model.sharded_weight = nn.Parameter(reduce_scatter(model.weight))
        model.unsharded_weight = nn.Parameter(all_gather(model.sharded_weight))
        self.bytes = model.unsharded_weight.untyped_storage().size()
        self.let_go()
        model.register_full_backward_pre_hook(lambda module, grads: self.gather())
        model.register_full_backward_hook(lambda module, grads_in, grads_out: self.reduce())
        model.register_forward_pre_hook(lambda module, inputs: self.gather())
        model.register_forward_hook(lambda module, inputs, output: self.let_go())

    def shrink(self):
        self.model.unsharded_weight.untyped_storage().resize_(0)

    def gather(self):
        whole = self.model.unsharded_weight
        with torch.no_grad(), torch.autograd._unsafe_preserve_version_counter(whole):
            whole.untyped_storage().resize_(self.bytes)
            torch.ops.fsdp.copy_(whole, all_gather(self.model.sharded_weight))
        self.model._parameters["weight"] = whole

    def let_go(self):
        self.model._parameters["weight"] = self.model.sharded_weight
        self.shrink()

    def reduce(self):
        gradient = reduce_scatter(self.model.weight.grad)
        self.model._parameters["weight"] = self.model.sharded_weight
        self.model.weight.grad = gradient
        self.shrink()


def fake_fsdp(device="cpu"):
    """Return a layer that is sharded in this way, and an input."""
    torch.manual_seed(SEED)
    model = nn.Linear(20, 10, bias=False, device=device)
    Fsdp(model)
    return model, torch.rand(2, 20, requires_grad=True, device=device)


class DistributedPatternTests(PatternTestCase, DistributedTestBase):
    """Compiled with its hooks, against itself in eager, whose gradients are worked out by hand."""

    world_size = 1
    rank_modes = ("fresh",)

    def setUpRank(self):
        super().setUpRank()
        around = clean_compiler()
        around.__enter__()
        self.addCleanup(around.__exit__, None, None, None)
        settle()

    def check_by_hand(self, model, inputs):
        """Check the eager run: an output's sum has the rows' sum as gradient of each row of the weight.

        Gradients of the whole weight add up, and are replaced each time by what the hook makes of them.
        """
        rows = inputs.detach().sum(0).expand(10, 20)
        self.assertEqual(model.weight.shape, (5, 20))
        self.assertEqual(model.unsharded_weight.untyped_storage().size(), 0)
        self.assertEqual(model.unsharded_weight.grad, 4 * rows)
        self.assertEqual(model.weight.grad, 4 * rows[:5])
        self.assertEqual(inputs.grad, 4 * all_gather(model.weight).sum(0).expand(2, 20))

    def check(self, forward, backward, *, graphs, device="cpu"):
        reference, reference_inputs = fake_fsdp(device)
        reference_output = steps(reference, reference_inputs)
        self.check_by_hand(reference, reference_inputs)
        model, inputs = fake_fsdp(device)
        patched = functorch_config.patch(recompute_views=True)
        with patched, self.compiles(**graphs), autograd_compiled_by(backward):
            output = steps(forward(model), inputs)
        self.assert_same_grad(model.weight, reference.weight)
        self.assert_same_grad(inputs, reference_inputs)
        self.assert_same_grad(output, reference_output)
        self.assertEqual(model.unsharded_weight.untyped_storage().size(), 0)

    def test_fake_distributed_aot_eager(self):
        counter = CompileCounter()
        self.check(
            lambda model: fullgraph(model, "aot_eager"),
            lambda graph: fullgraph(graph, counter),
            graphs={"aot_eager": 1, "eager": 2},
        )
        self.assertEqual(counter.frame_count, 2)  # without a gradient to add to, and with one

    def test_fake_distributed_inductor_cpu(self):
        self.check(fullgraph, fullgraph, graphs={"inductor": 3})

    @requires_cuda
    def test_fake_distributed_inductor(self):
        self.check(fullgraph, fullgraph, graphs={"inductor": 3}, device=accelerator())


if __name__ == "__main__":
    run_tests()
