"""Tests the draw of FSDP programs: of a seed always the same, and varied."""

from __future__ import annotations

import unittest

from harness.fuzzing.blocks import BLOCKS
from harness.fuzzing.fsdp.draw import IDLE, MAX_BLOCKS, MAX_STEPS, MESHES, NOT_REDUCED, drawn
from harness.fuzzing.fsdp.program import COMPILED, OPTIMIZERS, OPTIONS, REFUSED, RESTORES, ROLES, WAYS

PROGRAMS = [drawn(seed, size) for seed in range(100) for size in MESHES]


class DrawTest(unittest.TestCase):
    def test_seed_decides(self) -> None:
        self.assertEqual(drawn(7, 2), PROGRAMS[7 * len(MESHES)])
        self.assertGreater(len(set(PROGRAMS)), 280)

    def test_variety(self) -> None:
        """Every block, role, mesh, option, optimizer and kind of step is drawn, within the limits."""
        blocks = {name for each in PROGRAMS for name, _ in each.blocks}
        self.assertEqual(blocks, set(BLOCKS) - REFUSED - NOT_REDUCED)
        self.assertEqual({role for each in PROGRAMS for _, role in each.blocks}, set(ROLES))
        self.assertEqual({each.mesh for each in PROGRAMS}, {mesh for own in MESHES.values() for mesh in own})
        options = {pair for each in PROGRAMS for pair in each.options}
        self.assertEqual({name for name, _ in options}, OPTIONS)
        self.assertLessEqual({("reshard", True), ("reshard", False), ("reshard", 2)}, options)
        self.assertEqual({each.optimizer for each in PROGRAMS}, set(OPTIMIZERS))
        steps = [step for each in PROGRAMS for step in each.steps]
        self.assertEqual({step.way for step in steps}, set(WAYS))
        self.assertEqual({step.restores for step in steps}, set(RESTORES))
        self.assertLessEqual({("compile", each) for each in COMPILED}, options)
        idle = [each for each in PROGRAMS if IDLE & {name for name, _ in each.blocks}]
        self.assertNotIn("compile", {name for each in idle for name, _ in each.options})
        self.assertNotIn("resized", {step.restores for each in idle for step in each.steps})
        self.assertEqual({step.batches for step in steps}, {1, 2, 3})
        self.assertLessEqual(max(len(each.blocks) for each in PROGRAMS), MAX_BLOCKS)
        self.assertLessEqual(max(len(each.steps) for each in PROGRAMS), MAX_STEPS)


if __name__ == "__main__":
    unittest.main()
