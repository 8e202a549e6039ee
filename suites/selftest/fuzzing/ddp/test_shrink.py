"""Tests the simpler DDP programs: shrinking comes to the smallest that has what fails."""

from __future__ import annotations

import unittest

from harness.fuzzing.ddp.draw import drawn
from harness.fuzzing.ddp.program import DdpProgram, Step
from harness.fuzzing.ddp.shrink import simpler


class ShrinkTest(unittest.TestCase):
    def test_end(self) -> None:
        """Of a program whose failure needs a block and a step of two batches, no more is left."""
        options = (("bucket_cap_mb", 25), ("find_unused_parameters", True))
        steps = (Step(), Step(3, True, True))
        program = DdpProgram(3, ("norm", "branch", "frozen"), options, steps, "python", joins=True)
        while smaller := next((each for each in simpler(program) if fails(each)), None):
            program = smaller
        expected = DdpProgram(2, ("branch",), (("find_unused_parameters", True),), (Step(2),))
        self.assertEqual(program, expected)

    def test_others(self) -> None:
        """No simpler program is the program, or valid only by chance."""
        for seed in range(30):
            program = drawn(seed, 2)
            self.assertNotIn(program, list(simpler(program)))


def fails(program: DdpProgram) -> bool:
    """Whether a program has the block and the step."""
    return "branch" in program.blocks and any(step.batches >= 2 for step in program.steps)


if __name__ == "__main__":
    unittest.main()
