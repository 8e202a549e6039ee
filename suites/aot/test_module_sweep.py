"""Every module of torch's own database does through AOTAutograd what it does in eager mode.

One test a module and mode, static and symbolic sizes, on the database's inputs in float32, in training and in
evaluation where they differ; by ``--slow`` on all. Parameters and buffers are inputs of the function, as they
are for ``torch.compile``. As in the sweep of operators the database's own marks do not count: what
this build does is in ``suites/aot/module_rules.py``.
"""

from __future__ import annotations

import sys
import unittest
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._inductor.pattern_matcher
from torch._functorch.partitioners import default_partition
from torch.testing._internal.common_modules import module_db

from harness import DynamoTestCase, TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from harness.targets.current import current
from suites.aot import module_rules as rules
from suites.aot.agreement import Call, check_call
from suites.aot.known import all_names
from suites.aot.sweep import add_test, check_samples, shown

DEVICE, DTYPE = current().device_type, torch.float32
MODES = {
    "static": "test_aot_autograd_module_exhaustive",
    "symbolic": "test_aot_autograd_symbolic_module_exhaustive",
}


def modules():
    """By the name in its tests: the database's entry, and whether in training."""
    found = {}
    for info in module_db:
        if DTYPE in info.supported_dtypes(DEVICE):
            if info.train_and_eval_differ:
                found[f"{info.formatted_name}_train_mode"] = info, True
                found[f"{info.formatted_name}_eval_mode"] = info, False
            else:
                found[info.formatted_name] = info, True
    return found


def built(info, sample, training):
    """The module of an input of the database, ready for its forward call."""
    constructor, forward = sample.constructor_input, sample.forward_input
    module = info.module_cls(*constructor.args, **constructor.kwargs)
    module.to(DEVICE, DTYPE).train(training)
    if info.is_lazy:
        with torch.no_grad():  # the first call makes the parameters
            module(*forward.args, **forward.kwargs)
    return module


def call_of(module, forward):
    """The call as one of its parameters, buffers and arguments, and how many the former are."""

    def target(state, args, kwargs):
        return torch.func.functional_call(module, state, args, kwargs)

    state = {
        **dict(module.named_parameters(remove_duplicate=False)),
        **dict(module.named_buffers(remove_duplicate=False)),
    }
    return Call.of(target, (state, forward.args, forward.kwargs), {}), len(state)


class TestEagerFusionModuleInfoCPU(DynamoTestCase):
    """The sweep; its tests are added below."""

    def check(self, info, training, mode, known):
        """Compare the inputs of a module."""

        def check_sample(sample):
            call, own = call_of(built(info, sample, training), sample.forward_input)
            check_call(
                call, dynamic=mode == "symbolic", partitioner=default_partition, num_params_buffers=own
            )

        samples = info.module_inputs_func(
            info, device=DEVICE, dtype=DTYPE, requires_grad=True, training=training
        )
        check_samples(self, samples, check_sample, described, known)


def described(sample):
    parts = (sample.constructor_input, sample.forward_input)
    return " called with ".join(f"({shown(part.args, part.kwargs)})" for part in parts)


def add_tests():
    for name, (info, training) in modules().items():
        for mode, test in MODES.items():
            known = [one for one in rules.KNOWN if one.concerns(name, mode)]
            add_test(
                TestEagerFusionModuleInfoCPU,
                f"{test}_{name}_cpu_float32",
                partial(
                    TestEagerFusionModuleInfoCPU.check, info=info, training=training, mode=mode, known=known
                ),
                fails=bool(known),
                long=name in rules.LONG,
            )


add_tests()


class ModuleRulesTest(TestCase):
    @unittest.skipUnless(torch_at_least("2.13"), "there are rules of what is new in torch 2.13")
    def test_every_rule_is_of_a_module(self):
        self.assertEqual((all_names(rules.KNOWN) | rules.LONG.keys()) - modules().keys(), set())


if __name__ == "__main__":
    run_tests()
