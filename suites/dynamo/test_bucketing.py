"""DDPOptimizer against an independent model of its rule: random models, limits, parameters to ignore.

What a model consists of is told by the model itself (``trees``), what must be in which bucket by
``harness.graphs.expected_buckets``, what is by ``captured_splits``.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from unittest import mock

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch._dynamo import config
from torch._dynamo.backends.distributed import DDPOptimizer
from torch._dynamo.exc import BackendCompilerFailed
from torch.nn.parallel import DistributedDataParallel

from harness import DynamoTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.graphs import (
    DDP_OPTIMIZER_DEVIATIONS,
    MODEL_OUTPUT,
    DdpParameter,
    ForwardOperator,
    captured_splits,
    expected_buckets,
)
from harness.hypothesis_examples import bounded
from suites.dynamo.models import MIB, FakeDDP
from suites.dynamo.trees import (
    CAPS,
    PLAIN_LEAVES,
    WIDTH,
    ByKeyword,
    ByMethod,
    Chain,
    Dense,
    InList,
    Plain,
    Twice,
    steps_of,
    trees,
)

#: DDP's limit of the first bucket.
FIRST_CAP = "torch.distributed._DEFAULT_FIRST_BUCKET_BYTES"


def ignore(model, names):
    """Tell DDP to leave some parameters alone."""
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, list(names))


class BucketsTestCase(DynamoTestCase):
    """Splits models whose parameters are bytes."""

    def setUp(self):
        super().setUp()
        config.optimize_ddp = True
        warns = logging.getLogger("torch._dynamo.backends.distributed")  # of each bucket that it extends
        self.addCleanup(warns.setLevel, warns.level)
        warns.setLevel(logging.ERROR)

    def split(self, model, cap, first_cap):
        """Return the split of a model at these limits, which computes what the model does."""
        torch._dynamo.reset()
        x = torch.randn(2, WIDTH)
        ddp = FakeDDP(model)
        ddp.bucket_bytes_cap = cap
        with mock.patch(FIRST_CAP, first_cap), captured_splits() as splits:
            actual = torch.compile(ddp, backend="eager")(x)
        self.assertEqual(actual, model(x))
        (split,) = splits
        return split

    def check(self, split, expected):
        """Check a split's buckets, their order and bytes."""
        self.assertEqual(split.names, tuple(bucket.names for bucket in expected))
        self.assertEqual(split.sizes, tuple(bucket.size for bucket in expected))


class TestTracedModels(BucketsTestCase):
    """Models that dynamo traces."""

    @bounded(15)
    @given(trees(PLAIN_LEAVES, tied=False), CAPS)
    def test_as_documented(self, model, caps):
        self.check(self.split(model, *caps), expected_buckets(steps_of(model), *caps))

    @bounded(24)
    @given(trees(), CAPS, st.data())
    def test_with_known_deviations(self, model, caps, data):
        names = [name for name, _ in model.named_parameters()]
        if names:
            ignore(model, data.draw(st.sets(st.sampled_from(names), max_size=3)))
        self.check(
            self.split(model, *caps), expected_buckets(steps_of(model), *caps, DDP_OPTIMIZER_DEVIATIONS)
        )


class TestKnownDeviations(BucketsTestCase):
    """Where DDPOptimizer leaves its documentation, each by itself: what it says, and what it does today.

    A release that changes one of these fails here, and ``DDP_OPTIMIZER_DEVIATIONS`` has to follow.
    """

    def check_deviation(self, *parts, documented, actual, ignored=()):
        model = Chain([*parts, Plain()], residual=False)
        ignore(model, ignored)
        names = tuple(tuple(f"parts.{name}" for name in bucket.split()) for bucket in documented)
        self.assertEqual(tuple(b.names for b in expected_buckets(steps_of(model), 60, 60)), names)
        split = self.split(model, 60, 60)
        self.check(split, expected_buckets(steps_of(model), 60, 60, DDP_OPTIMIZER_DEVIATIONS))
        self.assertEqual(
            split.names, tuple(tuple(f"parts.{name}" for name in bucket.split()) for bucket in actual)
        )
        return split

    def test_ignored_parameters_count(self):
        # Dynamo hands the parameters to the graph as fakes, without DDP's mark.
        self.check_deviation(
            Dense(bias=False),
            Dense(bias=False),
            ignored=["parts.1.weight"],
            documented=["0.weight"],
            actual=["1.weight", "0.weight"],
        )

    def test_shared_parameters_count_again(self):
        # DDP reduces their gradients once.
        shared = Dense(bias=False)
        self.check_deviation(
            shared,
            Dense(bias=False),
            shared,
            documented=["0.weight", "1.weight"],
            actual=["0.weight", "1.weight", "0.weight"],
        )

    def test_squares_count_twice(self):
        self.check_deviation(Twice(), documented=["0.root"], actual=["0.root 0.root"])

    def test_parameters_by_keyword_do_not_count(self):
        split = self.check_deviation(
            Dense(bias=False), ByKeyword(), documented=["1.weight", "0.weight"], actual=["0.weight"]
        )
        self.assertEqual([each.name for each in split.missed], ["parts.1.weight"])

    def test_parameters_in_lists_do_not_count(self):
        split = self.check_deviation(
            Dense(bias=False), InList(), documented=["1.first 1.second 0.weight"], actual=["0.weight"]
        )
        self.assertEqual([each.name for each in split.missed], ["parts.1.first", "parts.1.second"])


@st.composite
def module_lists(draw):
    """Torch's own modules, some of them several times, and what parameters to ignore."""
    made = draw(
        st.lists(
            st.one_of(
                st.builds(lambda bias: nn.Linear(WIDTH, WIDTH, bias=bias), st.booleans()),
                st.builds(lambda: nn.LayerNorm(WIDTH)),
                st.builds(nn.ReLU),
            ),
            min_size=1,
            max_size=5,
        )
    )
    model = nn.Sequential(*made, *draw(st.lists(st.sampled_from(made), max_size=3)))
    names = [name for name, _ in model.named_parameters()]
    ignore(model, draw(st.sets(st.sampled_from(names), max_size=3)) if names else [])
    return model


class TestGraphsOfModules(BucketsTestCase):
    """Graphs that call modules, which dynamo no longer makes: here marks and shared modules are honoured."""

    @bounded(40)
    @given(module_lists(), CAPS)
    def test_as_documented(self, model, caps):
        cap, first_cap = caps
        x = torch.randn(2, WIDTH)
        graph = torch.fx.symbolic_trace(model)
        graph._param_name_to_source = {}
        for node in graph.graph.find_nodes(op="placeholder"):
            node._dynamo_source = None
        optimizer = DDPOptimizer(cap, lambda graph, inputs: graph.forward, first_bucket_cap=first_cap)
        with captured_splits() as splits:
            compiled = optimizer.compile_fn(graph, [x])
        self.assertEqual(compiled(x), model(x))
        self.check(splits[0], expected_buckets(self.steps(model), cap, first_cap))

    def steps(self, model):
        """The modules one after the other, each used as a whole."""
        names = {id(each): name for name, each in model.named_parameters()}
        steps = []
        for index, module in enumerate(model):
            weights = tuple(
                DdpParameter(names[id(p)], 4 * p.numel(), ignored=getattr(p, "_ddp_ignored", False))
                for p in module.parameters()
            )
            steps.append(
                ForwardOperator(weights, readers=(MODEL_OUTPUT if index == len(model) - 1 else index + 1,))
            )
        return steps


class TestLimits(BucketsTestCase):
    """The limits themselves."""

    def test_first_bucket_is_the_smallest(self):
        with self.assertRaisesRegex(AssertionError, "First bucket should be smaller/equal"):
            self.split(Chain([Plain()], residual=False), MIB - 1, MIB)

    def test_first_limit_is_ddp_s(self):
        # A weight of 64 bytes: at a first limit of 64 it is a bucket, of 65 it is not.
        for first_cap, sizes in ((64, (64, 64)), (65, (128,))):
            with self.subTest(first_cap):
                model = Chain([Dense(bias=False), Dense(bias=False)], residual=False)
                self.assertEqual(self.split(model, 1000, first_cap).sizes, sizes)

    def test_parameter_without_elements(self):
        # It fills nothing, so by itself it would be no bucket. DDPOptimizer takes a bucket of no bytes for
        # one of no parameters, and fails.
        nothing = ByMethod(0, torch.float32)
        alone = Chain([nothing, Dense(bias=False)], residual=False)
        with self.assertRaisesRegex(BackendCompilerFailed, "Params should be empty if size is 0"):
            self.split(alone, 60, 60)
        among_others = Chain([Dense(bias=False), nothing, Dense(bias=False)], residual=False)
        self.assertEqual(self.split(among_others, 60, 60).sizes, (64, 64))


if __name__ == "__main__":
    run_tests()
