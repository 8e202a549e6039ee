"""Tests the draw of FSDP1 programs: of a seed always the same, and varied."""

from __future__ import annotations

import unittest

from harness.fuzzing.blocks import BLOCKS
from harness.fuzzing.fsdp1.draw import MESHES, drawn
from harness.fuzzing.fsdp1.program import HYBRIDS, PREFETCHES, STRATEGIES, Fsdp1Program

PROGRAMS = [drawn(seed, size) for seed in range(100) for size in MESHES]


class DrawTest(unittest.TestCase):
    def test_seed_decides(self) -> None:
        self.assertEqual(drawn(7, 2), PROGRAMS[7 * len(MESHES)])
        self.assertGreater(len(set(PROGRAMS)), 280)

    def test_variety(self) -> None:
        """Every block, mesh and option of FSDP1 is drawn."""
        blocks = {name for each in PROGRAMS for name, _ in each.blocks}
        self.assertEqual(blocks, set(BLOCKS) - Fsdp1Program.refused)
        self.assertEqual({each.mesh for each in PROGRAMS}, {mesh for own in MESHES.values() for mesh in own})
        options = {pair for each in PROGRAMS for pair in each.options}
        self.assertEqual({name for name, _ in options}, Fsdp1Program.known_options)
        self.assertLessEqual({("strategy", each) for each in (*STRATEGIES, *HYBRIDS)}, options)
        self.assertLessEqual({("prefetch", each) for each in PREFETCHES}, options)
        self.assertTrue(any(step.clips for each in PROGRAMS for step in each.steps))


if __name__ == "__main__":
    unittest.main()
