"""Every optimizer of ``torch.optim`` in a compiled train step, beside DDP.

Each in its implementations (for-loop, foreach, fused), on param groups whose options and learning rates
differ; the rates change at each step. Parameters and state are equal bit by bit, in one graph. Those that
cannot be traced are refused, with the reason.
"""

from __future__ import annotations

import itertools
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
from torch import nn, optim

from harness import (
    TestCase,
    UsageError,
    instantiate_parametrized_tests,
    load_tests,  # noqa: F401  (unittest calls it)
    parametrize,
    run_tests,
    subtest,
)
from harness.graphs import train_step
from suites.spmd.train_step_base import ROUNDED, TrainStepTestCase, sum_step

DECAY = 0.1
FOR_LOOP, FOREACH, FUSED = {"foreach": False}, {"foreach": True}, {"fused": True}
EXACTLY = {"rtol": 0, "atol": 0}
#: Bias corrections in float32 instead of Python's numbers.
CAPTURABLE = {"rtol": 1e-5, "atol": 1e-6}

#: Optimizers by name: the ways they are implemented, each group's options, and how close they come.
MATRIX = {
    "ASGD": ([FOR_LOOP, FOREACH], [{}, {"weight_decay": DECAY, "lambd": 0.1}, {"t0": 1}], CAPTURABLE),
    "Adadelta": ([FOR_LOOP, FOREACH], [{}, {"weight_decay": DECAY, "maximize": True}], EXACTLY),
    "Adagrad": ([FOR_LOOP, FOREACH, FUSED], [{}, {"weight_decay": DECAY, "lr_decay": 0.5}], EXACTLY),
    "Adam": ([FOR_LOOP, FOREACH, FUSED], [{}, {"weight_decay": DECAY, "amsgrad": True}], EXACTLY),
    "AdamW": ([FOR_LOOP, FOREACH, FUSED], [{}, {"weight_decay": 0, "amsgrad": True}], EXACTLY),
    "Adamax": ([FOR_LOOP, FOREACH], [{}, {"weight_decay": DECAY, "maximize": True}], EXACTLY),
    "Muon": ([{}], [{}, {"weight_decay": 0, "nesterov": False}], EXACTLY),
    "NAdam": (
        [FOR_LOOP, FOREACH],
        [{}, {"weight_decay": DECAY}, {"weight_decay": DECAY, "decoupled_weight_decay": True}],
        EXACTLY,
    ),
    "RAdam": (
        [FOR_LOOP, FOREACH],
        [{}, {"weight_decay": DECAY}, {"weight_decay": DECAY, "decoupled_weight_decay": True}],
        CAPTURABLE,
    ),
    "RMSprop": (
        [FOR_LOOP, FOREACH],
        [
            {},
            {"weight_decay": DECAY},
            {"momentum": 0.9},
            {"centered": True, "momentum": 0.5, "weight_decay": DECAY},
        ],
        EXACTLY,
    ),
    "Rprop": ([FOR_LOOP, FOREACH], [{}, {"maximize": True}], EXACTLY),
    "SGD": (
        [FOR_LOOP, FOREACH, FUSED],
        [
            {},
            {"weight_decay": DECAY},
            {"momentum": 0.9},
            {"momentum": 0.9, "dampening": 0.5, "weight_decay": DECAY},
            {"momentum": 0.9, "nesterov": True, "maximize": True},
        ],
        EXACTLY,
    ),
}
#: Those that cannot be traced, and where they need a number of a tensor's.
REFUSED = ("Adafactor", "LBFGS", "SparseAdam")


def variants():
    """Each optimizer in each implementation, as subtests."""
    for name, (kinds, options, tolerance) in MATRIX.items():
        for kind in kinds:
            yield subtest((name, kind, options, tolerance), name=f"{name}_{label(kind)}")


def label(kind):
    """The name of an implementation."""
    return next((key for key, on in kind.items() if on), "for_loop")


def model(layers=2):
    """Layers without what Muon does not take, so that all optimizers train the same."""
    sizes = [10, *[6] * (layers - 1), 4]
    linear = [nn.Linear(*each, bias=False) for each in itertools.pairwise(sizes)]
    return nn.Sequential(linear[0], nn.Tanh(), *linear[1:])


def in_groups(kind, options, **common):
    """What makes an optimizer of a model, a group for each layer with its options."""

    def make(module):
        groups = [
            {"params": [weight], "lr": 0.05 / number, **each}
            for number, (weight, each) in enumerate(zip(module.parameters(), options, strict=True), 1)
        ]
        return kind(groups, **common)

    return make


def kind_of_updates(graph):
    """The implementation that the operators of a graph tell of. The fused ones count steps by foreach."""
    names = " ".join(str(node.target) for node in graph.nodes if node.op == "call_function")
    return next((kind for kind in ("fused", "foreach") if f"aten._{kind}_" in names), "for_loop")


class OptimizersTest(TrainStepTestCase):
    """Each optimizer, a group for each of its options, with learning rates that change."""

    @parametrize("name, kind, options, tolerance", list(variants()))
    def test(self, name, kind, options, tolerance):
        if (name, label(kind), self.device_type) == ("Adagrad", "fused", "cuda"):
            self.skipTest("CUDA has no fused Adagrad")
        compiled = self.check_beside_ddp(
            model(len(options)),
            lambda: [torch.randn(3, 10)],
            in_groups(getattr(optim, name), options, **kind),
            rates=(0.1, 0.01, 0.2),
            tolerance=tolerance,
        )
        self.assertEqual(kind_of_updates(compiled.gm.graph), label(kind))

    def test_first_step_by_warm_up(self):
        def make(module):
            return optim.Adam(module.parameters(), lr=0.1)

        self.check_beside_ddp(
            model(), lambda: [torch.randn(3, 10)], make, warm_up=False, options={"warm_up": True}
        )

    def test_learning_rate_that_is_a_tensor(self):
        def make(module):
            return optim.Adam(module.parameters(), lr=torch.tensor(0.1), fused=True)

        self.check_beside_ddp(model(), lambda: [torch.randn(3, 10)], make, rates=(0.1, 0.01, 0.2))

    def test_in_buckets(self):
        for bucket_mb, all_reduces in ((1, 1), (200 / 2**20, 2), (1e-9, 2)):
            with self.subTest(bucket_mb=bucket_mb):
                self.check_beside_ddp(
                    model(),
                    lambda: [torch.randn(3, 10)],
                    in_groups(optim.SGD, [{}, {"weight_decay": DECAY}], momentum=0.9),
                    all_reduces=all_reduces,
                    options={"bucket_mb": bucket_mb},
                    tolerance=ROUNDED,
                )


instantiate_parametrized_tests(OptimizersTest)


class CompletenessTest(TestCase):
    """The matrix has all of ``torch.optim``."""

    def test_every_optimizer_is_here(self):
        all_of_them = {
            name
            for name, each in vars(optim).items()
            if isinstance(each, type) and issubclass(each, optim.Optimizer) and each is not optim.Optimizer
        }
        self.assertEqual(all_of_them, {*MATRIX, *REFUSED})


class RefusedTest(TrainStepTestCase):
    """Optimizers that take a decision by a number in a tensor, or a gradient that cannot be traced."""

    world_size = 1

    def check_refused(self, module, optimizer, message, x, function=sum_step):
        function(module, optimizer, x)
        optimizer.zero_grad()
        before = [parameter.clone() for parameter in module.parameters()]
        with self.assertRaisesRegex(UsageError, message):
            train_step.compile()(function)(module, optimizer, x)
        self.assertEqual(list(module.parameters()), before, rtol=0, atol=0)

    def test_adafactor(self):
        for kind in (FOR_LOOP, FOREACH):
            module = model()
            with self.subTest(**kind):
                self.check_refused(
                    module,
                    optim.Adafactor(module.parameters(), **kind),
                    r"the value of a tensor in Python at train_step_base\.py:\d+, in _adafactor\.py:\d+",
                    torch.randn(3, 10),
                )

    def test_lbfgs(self):
        def step(module, optimizer, x):
            def closure():
                optimizer.zero_grad()
                loss = module(x).square().sum()
                loss.backward()
                return loss

            return optimizer.step(closure)

        module = model()
        self.check_refused(
            module,
            optim.LBFGS(module.parameters(), max_iter=2),
            r"needs the value of a tensor in Python at .*lbfgs\.py:\d+",
            torch.randn(3, 10),
            step,
        )

    def test_sparse_adam(self):
        module = nn.Embedding(10, 4, sparse=True)
        self.check_refused(
            module, optim.SparseAdam(module.parameters()), "a gradient is sparse", torch.randint(0, 10, (3,))
        )


if __name__ == "__main__":
    run_tests()
