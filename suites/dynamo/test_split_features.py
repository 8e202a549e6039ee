"""What must get through DDPOptimizer's splits to the pieces: policies of checkpoints, settings, closures."""

from __future__ import annotations

import copy
import functools
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import Tensor, nn
from torch._dynamo import config
from torch._dynamo.backends.common import aot_autograd
from torch._dynamo.utils import counters
from torch._functorch.aot_autograd import make_boxed_func
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch._inductor import config as inductor_config
from torch.nn.attention.flex_attention import flex_attention
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

from harness import (  # noqa: F401  (unittest calls load_tests)
    load_tests,
    requires_cuda,
    run_tests,
    slow_test,
)
from harness.graphs import captured_splits
from harness.releases import torch_at_least
from harness.targets import Capability, needs
from suites import inductor
from suites.dynamo.base import DdpCompileTestCase, learn, mean_square
from suites.dynamo.models import EQUAL_WIDTHS, SMALL_WIDTHS, ToyModel, weight


class SelectivelyCheckpointed(nn.Module):
    """Weights of 1 MiB, two in each of two checkpointed regions. A policy says what the regions keep."""

    def __init__(self, policy):
        super().__init__()
        self.weights = nn.ParameterList([weight(512) for _ in range(4)])
        self.contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def forward(self, x: Tensor) -> Tensor:
        for first in (0, 2):
            x = checkpoint(self.region, x, first, use_reentrant=False, context_fn=self.contexts)
        return x

    def region(self, x: Tensor, first: int) -> Tensor:
        return ((x @ self.weights[first]).sin() @ self.weights[first + 1]).sin()


class TestSplitFeatures(DdpCompileTestCase):
    """In one process."""

    @unittest.skipUnless(
        torch_at_least("2.13"), "before torch 2.13 no policy is asked in DDPOptimizer's pieces"
    )
    def test_selective_activation_checkpoint(self):
        # A backward has two products for each weight, but one for the first, since the input wants no
        # gradient; and, unless they are kept, the two of the forward again.
        for kept, products in ((True, [4, 3]), (False, [6, 5])):
            with self.subTest(kept=kept):
                torch._dynamo.reset()
                asked, actual = self.products_in_backward(kept)
                self.assertEqual(set(asked), {torch.ops.aten.mm.default, torch.ops.aten.sin.default})
                self.assertEqual(actual, products)

    def products_in_backward(self, kept):
        """Train the model for a step in two pieces, with a policy that keeps products or does not.

        Return the operators that the policy was asked about, and how many products each backward graph has.
        """
        asked, products = [], []

        def policy(context, operator, *args, **kwargs):
            asked.append(operator)
            keep = kept and operator is torch.ops.aten.mm.default
            return CheckpointPolicy.MUST_SAVE if keep else CheckpointPolicy.MUST_RECOMPUTE

        def count_products(graph, inputs):
            nodes = graph.graph.find_nodes(op="call_function", target=torch.ops.aten.mm.default)
            products.append(len(nodes))
            return make_boxed_func(graph.forward)

        backend = aot_autograd(
            fw_compiler=lambda graph, inputs: make_boxed_func(graph.forward),
            bw_compiler=count_products,
            partition_fn=min_cut_rematerialization_partition,
        )
        model = SelectivelyCheckpointed(policy).to(self.device)
        x = torch.randn(8, 512, device=self.device)
        expected = learn(copy.deepcopy(model), x)
        asked.clear()
        with captured_splits() as splits:
            actual = learn(torch.compile(self.wrap(model, bucket_cap_mb=1), backend=backend), x)
        self.same_learned(actual, expected)
        self.assertEqual(
            [split.names for split in splits],
            [(("weights.2", "weights.3"), ("weights.0", "weights.1"))],
        )
        return asked, products

    @needs(Capability.INDUCTOR)
    @unittest.skipUnless(torch_at_least("2.13"), "DDPOptimizer takes settings of a frame from torch 2.13 on")
    def test_inductor_config_override_with_ddp(self):
        # A pass of one's own tells what inductor goes by. Without an id of its own it keeps caches out.
        found = []

        def look(graph):
            found.append(inductor_config.epilogue_fusion)

        model = ToyModel(EQUAL_WIDTHS).to(self.device)
        x = torch.randn(4, EQUAL_WIDTHS[0], device=self.device)
        for override, expected in (
            (">=0:epilogue_fusion=False", False),
            (">1000:epilogue_fusion=False", True),
        ):
            with (
                self.subTest(override=override),
                config.patch(debug_inductor_config_override=override),
                inductor_config.patch(post_grad_custom_post_pass=look),
                torch.no_grad(),
            ):
                torch._dynamo.reset()
                found.clear()
                self.assertEqual(torch.compile(self.wrap(model, bucket_cap_mb=1))(x), model(x))
                self.assertEqual(found, [expected] * 3)

    @requires_cuda
    def test_ddp_optimizer_cudagraph(self):
        # Parameters stay where they are, so each piece is recorded as a graph of its own; none is left out
        # for an input that moves, and what is replayed follows the parameters.
        with inductor_config.patch({"triton.cudagraphs": True}):
            self.check_trained_in_pieces("inductor", steps=4)
        self.assertEqual(counters["inductor"]["cudagraph_skips"], 0)
        self.assertGreater(counters["inductor"]["cudagraph_recorded_non_static_inputs"], 0)

    def check_trained_in_pieces(self, backend, *, steps):
        """Train the toy in three pieces beside a plain one, on rows of its own in each step."""
        plain = ToyModel(SMALL_WIDTHS).to(self.device)
        ddp = self.wrap(plain, bucket_cap_mb=1)
        counter = self.counted(backend)
        compiled = torch.compile(ddp, backend=counter)
        optimizers = [torch.optim.SGD(each.parameters(), lr=0.1) for each in (plain, ddp)]
        for _ in range(steps):
            torch.compiler.cudagraph_mark_step_begin()
            x = torch.randn(4, SMALL_WIDTHS[0], device=self.device)
            for one in (plain, compiled):
                mean_square(one(x)).backward()
            for (name, parameter), wrapped in zip(plain.named_parameters(), ddp.parameters(), strict=True):
                self.assertEqual(wrapped.grad, parameter.grad, name, rtol=1e-4, atol=1e-6)
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
        self.assertEqual(counter.frame_count, 3)

    def test_compiled_flex_attention_full_model_ddp(self):
        self.check_flex_attention("aot_eager", local=False)

    def test_compiled_flex_attention_local_ddp(self):
        self.check_flex_attention("aot_eager", local=True)

    @slow_test
    def test_compiled_flex_attention_full_model_ddp_inductor(self):
        inductor.allow_vectors()  # its kernels for the CPU need them, and a header of their own
        self.check_flex_attention("inductor", local=False)

    def check_flex_attention(self, backend, *, local):
        """Compile a model whose scores read a buffer, or only its attention; compare with plain attention."""
        counter = self.counted(backend)

        class Attention(nn.Module):
            def __init__(self):
                super().__init__()
                self.projections = nn.ModuleList(nn.Linear(64, 64) for _ in range(4))
                self.register_buffer("slopes", torch.tensor([0.5, 1.5]))
                self.attend = torch.compile(flex_attention, backend=counter) if local else flex_attention

            def score(self, score, batch, head, query, key):
                return score + self.slopes[head] * (query - key)

            def forward(self, x: Tensor) -> Tensor:
                # In one graph with the projections, inductor for the CPU takes views of them for the products
                # themselves and misreads their shapes: hence copies.
                q, k, v = (heads(each(x)).contiguous() for each in list(self.projections)[:3])
                y = self.attend(q, k, v, score_mod=self.score)
                return self.projections[3](y.transpose(1, 2).flatten(2))

        def heads(x):
            return x.unflatten(-1, (2, 32)).transpose(1, 2)

        model = Attention().to(self.device)
        x = torch.randn(2, 128, 64, device=self.device)
        with torch.no_grad():
            q, k, v = (heads(each(x)) for each in list(model.projections)[:3])
            position = torch.arange(128.0, device=self.device)
            bias = model.slopes[:, None, None] * (position[:, None] - position)
            y = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=bias)
            expected = model.projections[3](y.transpose(1, 2).flatten(2))
            ddp = self.wrap(model)
            actual = (ddp if local else torch.compile(ddp, backend=counter))(x)
        self.assertEqual(actual, expected, rtol=1e-4, atol=1e-4)
        self.assertEqual(counter.frame_count, 1)


if __name__ == "__main__":
    run_tests()
