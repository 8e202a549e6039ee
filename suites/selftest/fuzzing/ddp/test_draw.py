"""Tests the draw of DDP programs: of a seed always the same, and varied."""

from __future__ import annotations

import unittest

from harness.fuzzing.blocks import BLOCKS
from harness.fuzzing.ddp.draw import MAX_BLOCKS, MAX_STEPS, drawn
from harness.fuzzing.ddp.program import HOOKS

PROGRAMS = [drawn(seed, 2) for seed in range(200)]


class DrawTest(unittest.TestCase):
    def test_seed_decides(self) -> None:
        self.assertEqual(drawn(7, 2), PROGRAMS[7])
        self.assertGreater(len(set(PROGRAMS)), 190)

    def test_variety(self) -> None:
        """Every block, option, hook and kind of step is drawn, within the limits."""
        self.assertEqual({block for each in PROGRAMS for block in each.blocks}, set(BLOCKS))
        self.assertEqual({each.hook for each in PROGRAMS}, set(HOOKS))
        self.assertEqual({each.joins for each in PROGRAMS}, {True, False})
        names = {name for each in PROGRAMS for name, _ in each.options}
        self.assertEqual(len(names), 5)
        self.assertEqual({step.batches for each in PROGRAMS for step in each.steps}, {1, 2, 3})
        self.assertLessEqual(max(len(each.blocks) for each in PROGRAMS), MAX_BLOCKS)
        self.assertLessEqual(max(len(each.steps) for each in PROGRAMS), MAX_STEPS)

    def test_joined(self) -> None:
        """Under join() there are neither hooks nor calls without gradients."""
        for each in PROGRAMS:
            if each.joins:
                self.assertFalse(each.hook or any(step.evaluates for step in each.steps), each)

    def test_static_graph(self) -> None:
        """The first backward under a static graph synchronizes."""
        static = [each for each in PROGRAMS if dict(each.options).get("static_graph")]
        self.assertGreater(len(static), 10)
        self.assertEqual({each.steps[0].batches for each in static}, {1})


if __name__ == "__main__":
    unittest.main()
