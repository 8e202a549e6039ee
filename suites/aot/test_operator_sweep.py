"""Every operator of torch's own database does through AOTAutograd what it does in eager mode.

One test an operator and mode, static and symbolic sizes, on the database's samples in float32: in the
standard run some operators and of their samples some (``suites/aot/sweep.py``), by ``--slow`` all.
Operators without a derivative are compiled for inference. The databases' own marks (skips, expected failures,
tolerances) are not looked at: what this build does is in ``suites/aot/operator_rules.py``.
"""

from __future__ import annotations

import sys
import unittest
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch._inductor.pattern_matcher  # the partitioner's, half a second: here once, not in each worker
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.hop_db import hop_db

from harness import (
    DynamoTestCase,
    TestCase,
    load_tests,  # noqa: F401  (unittest calls it)
    requires_cuda,
    run_tests,
)
from harness.releases import torch_at_least
from harness.targets.current import current
from suites.aot import operator_rules as rules
from suites.aot.agreement import Call, check_call
from suites.aot.known import all_names
from suites.aot.sweep import add_test, check_samples, shown

DEVICE, DTYPE = current().device_type, torch.float32
MODES = {
    "static": "test_aot_autograd_exhaustive",
    "symbolic": "test_aot_autograd_symbolic_exhaustive",
}


def operators():
    """The databases' entries that take the dtype, by the name that their tests have."""
    return {op.formatted_name: op for op in (*op_db, *hop_db) if DTYPE in op.supported_dtypes(DEVICE)}


class TestEagerFusionOpInfoCPU(DynamoTestCase):
    """The sweep; its tests are added below."""

    def check(self, op, mode, known):
        """Compare the samples of an operator."""
        name = op.formatted_name
        options = {
            "dynamic": mode == "symbolic",
            "tolerance": rules.TOLERANCES.get(name),
            "compare_values": name not in rules.UNDETERMINED,
        }

        def check_sample(sample):
            target = processed(op, sample) if name in rules.PROCESSED else op.op
            check_call(Call.of(target, [sample.input, *sample.args], sample.kwargs), **options)

        device = "cuda" if name in rules.GPU else DEVICE
        samples = op.sample_inputs(device, DTYPE, requires_grad=op.supports_autograd)
        check_samples(self, samples, check_sample, described, known)


def processed(op, sample):
    """The operator, and what makes its result fit for differentiation."""
    return lambda *args, **kwargs: sample.output_process_fn_grad(op.op(*args, **kwargs))


def described(sample):
    return shown((sample.input, *sample.args), sample.kwargs)


def add_tests():
    for name, op in operators().items():
        for mode, test in MODES.items():
            known = [one for one in rules.KNOWN if one.concerns(name, mode)]
            add_test(
                TestEagerFusionOpInfoCPU,
                f"{test}_{name}_cpu_float32",
                partial(TestEagerFusionOpInfoCPU.check, op=op, mode=mode, known=known),
                fails=bool(known),
                long=name in rules.LONG,
                decorators=[requires_cuda] if name in rules.GPU else [],
            )


add_tests()


class OperatorRulesTest(TestCase):
    @unittest.skipUnless(torch_at_least("2.13"), "there are rules of what is new in torch 2.13")
    def test_every_rule_is_of_an_operator(self):
        tables = (rules.UNDETERMINED, rules.PROCESSED, rules.TOLERANCES, rules.GPU, rules.LONG)
        named = all_names(rules.KNOWN).union(*tables)
        self.assertEqual(named - operators().keys(), set())


if __name__ == "__main__":
    run_tests()
