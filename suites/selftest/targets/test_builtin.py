"""Tests the targets that need no plugin: what gloo declares, and which words find it."""

from __future__ import annotations

import unittest

from harness.fuzzing.backend import GLOO, backend_of
from harness.releases import torch_at_least
from harness.targets import builtin
from harness.targets.target import Capability
from suites.c10d.inputs import DTYPES_OF_OP, EVERYTHING, REALS, REFUSED


class GlooTest(unittest.TestCase):
    """gloo on the CPU."""

    def test_dtypes(self) -> None:
        """It declares what the c10d suite has found that it takes, and nothing that it refuses."""

        def names(dtypes: object) -> set[str]:
            return {str(each).removeprefix("torch.") for each in dtypes}  # type: ignore[attr-defined]  # tuples

        target = builtin.gloo()
        self.assertEqual(target.dtypes("broadcast"), names(EVERYTHING))
        self.assertEqual(target.dtypes("gather"), names(REALS))
        self.assertEqual(target.dtypes("send"), names((*EVERYTHING, *REFUSED)))
        for op, dtypes in DTYPES_OF_OP.items():
            self.assertEqual(target.dtypes("reduce_scatter", op), names(dtypes), op)
        self.assertEqual(target.dtypes("all_reduce", "premul_sum"), set())
        self.assertEqual(bool(target.dtypes("all_to_all")), torch_at_least("2.12"))

    def test_capabilities(self) -> None:
        """What the suite has tests for on gloo is declared, what gloo refuses is not."""
        declared = builtin.gloo().capabilities
        self.assertLessEqual({Capability.SPARSE, Capability.MONITORED_BARRIER, Capability.DDP}, declared)
        self.assertFalse({Capability.UNEVEN_LISTS, Capability.STACKED_OUTPUTS} & declared)

    def test_random_programs(self) -> None:
        """Random programs of the target are those that gloo has always been given."""
        self.assertEqual(backend_of(builtin.gloo()), GLOO)

    def test_find(self) -> None:
        """Its names find it, in any part; others find nothing."""
        for words in ((None, None), ("gloo", None), (None, "cpu"), ("gloo", "cpu")):
            self.assertIs(builtin.find(*words), builtin.gloo())
        for words in (("nccl", None), (None, "cuda"), ("gloo", "cuda"), ("nccl", "cpu")):
            self.assertIsNone(builtin.find(*words))
        self.assertIn(builtin.DEFAULT[0], builtin.backends())


if __name__ == "__main__":
    unittest.main()
