"""Tests the simpler FSDP programs: shrinking comes to the smallest that has what fails."""

from __future__ import annotations

import unittest

from harness.fuzzing.fsdp.draw import MESHES, drawn
from harness.fuzzing.fsdp.program import FsdpProgram, Step
from harness.fuzzing.fsdp.shrink import simpler


class ShrinkTest(unittest.TestCase):
    def test_end(self) -> None:
        """Of a program whose failure needs a unit and a step of two batches, no more is left."""
        blocks = (("norm", ""), ("odd", "unit"), ("frozen", "unit"), ("tiny", ""))
        steps = (Step(), Step(3, "each", True, True, "full", True))
        options = (("offload", True), ("reshard", 2))
        program = FsdpProgram((4,), blocks, 1, True, options, steps, "adam")
        while smaller := next((each for each in simpler(program) if fails(each)), None):
            program = smaller
        self.assertEqual(program, FsdpProgram((2,), (("odd", "unit"),), None, False, (), (Step(2),)))

    def test_others(self) -> None:
        """No simpler program is the program, and shrinking ends whatever fails."""
        for size in MESHES:
            for seed in range(20):
                program, count = drawn(seed, size), 0
                while (all_simpler := list(simpler(program))) and count < 100:
                    self.assertNotIn(program, all_simpler)
                    program, count = all_simpler[-1], count + 1
                self.assertLess(count, 100)


def fails(program: FsdpProgram) -> bool:
    """Whether a program has the unit and the step."""
    return ("odd", "unit") in program.blocks and any(step.batches >= 2 for step in program.steps)


if __name__ == "__main__":
    unittest.main()
