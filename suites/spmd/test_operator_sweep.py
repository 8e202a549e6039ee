"""Operators of torch's own database do on DTensors what they do on plain tensors, and so does their backward.

A few samples of each in float32, which one process lays over four ranks: a sample of a tenth of the
operators in the standard run, and all by ``--slow``. Left out is what this build refuses, or gets
wrong, for one of these samples (``suites/spmd/operator_rules.py``).
"""

from __future__ import annotations

import sys
import unittest
import zlib
from itertools import islice
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch._dynamo  # noqa: F401  (DTensor's first operator asks for it)
from torch.testing._internal.common_methods_invocations import op_db

from harness import (
    LocalDTensorContinuousTestBase,
    TestCase,
    load_tests,  # noqa: F401  (unittest calls it)
    run_tests,
    slow_test,
    timeout,
)
from harness.fuzzing.dtensors.ranks import PlayedRanks
from harness.releases import torch_between
from suites.spmd.operator_rules import LEFT_OUT
from suites.spmd.operator_samples import DTYPE, RANKS, check, samples

#: Parts that the operators are in by their names, those of them in the standard run, and its samples of each.
PARTS, STANDARD, FEW = 40, 4, 1
#: Seconds. A part takes some, and many more on a machine that does much else.
DEADLINE_S = 600


def operators():
    """The database's entries that take the dtype, by name."""
    return {op.formatted_name: op for op in op_db if DTYPE in op.supported_dtypes("cpu")}


def left_out():
    """The names of the operators that the sweep does not try."""
    return {name for names in LEFT_OUT.values() for name in names.split()}


@unittest.skipUnless(torch_between("2.13", "2.14"), "what is left out is of torch 2.13")
class OperatorSweepTest(LocalDTensorContinuousTestBase):
    """The sweep; the tests of its other parts are added below."""

    world_size = RANKS

    def check_part(self, part, most):
        """Check the operators of a part on so many samples each, a sub-test a sample."""
        ranks = PlayedRanks(RANKS)
        for name, op in operators().items():
            if name not in left_out() and zlib.crc32(name.encode()) % PARTS == part:
                for sample in islice(samples(op, ranks), most):
                    with self.subTest(name, sample=str(sample)):
                        check(op, sample, ranks)


def add_tests():
    for part in range(PARTS):
        if part < STANDARD:
            add_test(f"test_some_of_part_{part}", part, FEW, slow=False)
        add_test(f"test_part_{part}", part, None, slow=True)


def add_test(name, part, most, *, slow):
    def test(self):
        self.check_part(part, most)

    test.__name__ = name
    test.__qualname__ = f"{OperatorSweepTest.__qualname__}.{name}"
    test = timeout(DEADLINE_S)(test)
    setattr(OperatorSweepTest, name, slow_test(test) if slow else test)


add_tests()


class OperatorRulesTest(TestCase):
    @unittest.skipUnless(torch_between("2.13", "2.14"), "what is left out is of torch 2.13")
    def test_left_out(self):
        """Each is an operator, and is left out for one reason; most operators are not."""
        self.assertEqual(left_out() - operators().keys(), set())
        self.assertEqual(len(left_out()), sum(len(names.split()) for names in LEFT_OUT.values()))
        self.assertGreater(len(operators()), 2.5 * len(left_out()))


if __name__ == "__main__":
    run_tests()
