"""Tests the simpler DTensor programs: each runs on plain tensors, and shrinking comes to an end."""

from __future__ import annotations

import unittest

from harness.fuzzing.dtensors.draw import drawn
from harness.fuzzing.dtensors.plain import outcome
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement
from harness.fuzzing.dtensors.shrink import runs_plain, simpler

INPUT = Input((4, 3), ("Shard(0)", "Partial()"))
ADDED = Statement("{0} + 1", (0,))


class ShrinkTest(unittest.TestCase):
    def test_candidates_run(self) -> None:
        """Whatever is simpler than a drawn program runs on plain tensors."""
        for seed in range(6):
            for program in simpler(drawn(seed, 4)):
                outcome(program)

    def test_a_statement_less(self) -> None:
        """What used the statement uses its operand, and later numbers move down."""
        chain = (ADDED, Statement("torch.sin({0})", (1,)), Statement("{0} * {1}", (1, 2)))
        shorter = {each.statements for each in simpler(DTensorProgram((2, 2), (INPUT,), chain))}
        self.assertIn((Statement("torch.sin({0})", (0,)), Statement("{0} * {1}", (0, 1))), shorter)
        self.assertIn((ADDED, Statement("{0} * {1}", (1, 1))), shorter)

    def test_end(self) -> None:
        """A program whose failure needs one operator is shrunk to it, on one mesh dimension of two ranks."""
        program = DTensorProgram(
            (2, 4),
            (INPUT, INPUT),
            (ADDED, Statement("torch.sin({0})", (1,)), Statement("{0}.t()", (2,))),
            True,
        )
        while smaller := next((p for p in simpler(program) if "sin" in p.source), None):
            program = smaller
        self.assertEqual(program.source.count("="), 1)
        self.assertEqual(len(program.mesh), 1)
        self.assertLessEqual(program.world_size, 2)
        self.assertEqual({p for each in program.inputs for p in each.placements}, {"Replicate()"})

    def test_runs_plain(self) -> None:
        self.assertTrue(runs_plain(DTensorProgram((2, 2), (INPUT,), (ADDED,))))
        self.assertFalse(runs_plain(DTensorProgram((2, 2), (INPUT,), (Statement("{0} @ {0}", (0,)),))))

    def test_rules_of_draws(self) -> None:
        """Without the copy that is written to, the write would be to what was redistributed."""
        moved = Statement("", (0,), ("Shard(0)", "Replicate()"))
        chain = (moved, Statement("{0}.clone()", (0,)), Statement("{0}.zero_()", (2,)))
        program = DTensorProgram((2, 2), (INPUT,), chain)
        self.assertTrue(runs_plain(program))
        shorter = [each.statements for each in simpler(program)]
        self.assertNotIn((moved, Statement("{0}.zero_()", (0,))), shorter)
        self.assertIn((Statement("{0}.clone()", (0,)), Statement("{0}.zero_()", (1,))), shorter)

    def test_only_numbers(self) -> None:
        """A program that makes NaN or infinity differs from itself, and is no smaller form of any failure."""
        empty = Input((2, 0), ("Replicate()", "Replicate()"), grad=True)
        self.assertFalse(
            runs_plain(DTensorProgram((2, 2), (empty,), (Statement("{0}.std(-1, correction=0)", (0,)),)))
        )
        root = Statement("torch.linalg.vector_norm({0}, dim=0)", (0,))
        self.assertTrue(runs_plain(DTensorProgram((2, 2), (empty,), (root,), True)))


if __name__ == "__main__":
    unittest.main()
