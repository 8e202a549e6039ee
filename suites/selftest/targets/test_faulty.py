"""Tests the targets with a planted fault; that suites notice them is for ``tools/test_faulty_targets.py``."""

from __future__ import annotations

import unittest

import torch.distributed as dist

from suites.targets import python_gloo
from suites.targets.faulty import FAULTS, TARGETS


class FaultsTest(unittest.TestCase):
    """``FAULTS`` and ``TARGETS``."""

    def test_targets(self) -> None:
        """Each fault has a backend that torch knows, and declares what the right one does."""
        self.assertEqual([each.backend for each in TARGETS], [fault.name for fault in FAULTS])
        self.assertEqual(len({fault.name for fault in FAULTS}), len(FAULTS))
        for target in TARGETS:
            with self.subTest(target=target.backend):
                self.assertIn(target.backend, dist.Backend.backend_list)
                self.assertEqual(target.operations, python_gloo.TARGET.operations)
                self.assertEqual(target.capabilities, python_gloo.TARGET.capabilities)

    def test_expectations_differ(self) -> None:
        """Of some cells, no two faults redden the same ones."""
        places = {"dtype": "bfloat16", "reduction": "max", "way": "async", "group": "sub-groups"}
        moving = ("broadcast", "scatter", "all_gather", "all_to_all")
        cells = [
            (name, {**places, "reduction": reduction, "way": way})
            for name in ("all_reduce", "reduce", "reduce_scatter", *moving, "tags", "barrier")
            for reduction in ("sum", "max")
            for way in ("sync", "async")
        ]
        red = {fault.name: tuple(fault.reddens(name, at) for name, at in cells) for fault in FAULTS}
        self.assertEqual(len(set(red.values())), len(FAULTS))
        self.assertTrue(all(any(each) for each in red.values()))


if __name__ == "__main__":
    unittest.main()
