"""Tests the draw of DTensor programs: of a seed always the same, varied, and valid on plain tensors."""

from __future__ import annotations

import unittest

from harness.errors import UsageError
from harness.fuzzing.dtensors.draw import MAX_STATEMENTS, drawn, meshes
from harness.fuzzing.dtensors.operators import IN_PLACE
from harness.fuzzing.dtensors.plain import outcome

PROGRAMS = [drawn(seed, 4) for seed in range(40)]


class DrawTest(unittest.TestCase):
    def test_seed_decides(self) -> None:
        self.assertEqual(drawn(3, 4), PROGRAMS[3])
        self.assertGreater(len(set(PROGRAMS)), 38)

    def test_plain_tensors_run_them(self) -> None:
        """No program raises on plain tensors, and each has the ranks that were asked for."""
        for program in PROGRAMS:
            with self.subTest(str(program)):
                outcome(program)
                self.assertEqual(program.world_size, 4)
                self.assertLessEqual(len(program.statements), MAX_STATEMENTS)

    def test_variety(self) -> None:
        """Among some programs there is one of each kind that matters."""
        templates = {each.template for program in PROGRAMS for each in program.statements}
        placements = {p for program in PROGRAMS for each in program.inputs for p in each.placements}
        self.assertGreater(len(templates), 50)
        self.assertIn("", templates, "redistributions")
        self.assertTrue(templates & set(IN_PLACE))
        self.assertLessEqual({"Shard(0)", "Shard(1)", "Replicate()", "Partial()"}, placements)
        self.assertEqual({program.backward for program in PROGRAMS}, {True, False})
        self.assertGreater(len({program.mesh for program in PROGRAMS}), 3)

    def test_without(self) -> None:
        """Writes and partial inputs are left out where asked."""
        for seed in range(20):
            program = drawn(seed, 4, in_place=False, partial=False)
            self.assertFalse({each.template for each in program.statements} & set(IN_PLACE))
            self.assertFalse([p for each in program.inputs for p in each.placements if "Partial" in p])

    def test_meshes(self) -> None:
        """Every shape of up to three dimensions that numbers all ranks; at most one dimension of one rank."""
        self.assertEqual(set(meshes(4)), {(4,), (1, 4), (2, 2), (4, 1), (1, 2, 2)})
        self.assertEqual(set(meshes(1)), {(1,)})
        with self.assertRaisesRegex(UsageError, "give at least one"):
            drawn(0, 0)


if __name__ == "__main__":
    unittest.main()
