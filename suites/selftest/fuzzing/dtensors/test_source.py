"""Tests that the script of a DTensor program stands alone, runs, and fails where a tensor is wrong."""

from __future__ import annotations

import unittest

from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement
from harness.fuzzing.dtensors.source import source_of
from suites.selftest.fuzzing.scripts import alone, ended

PROGRAM = DTensorProgram(
    (2,),
    (Input((3,), ("Shard(0)",), grad=True), Input((3,), ("Partial()",))),
    (Statement("{0} * {1}", (0, 1)), Statement("", (2,), ("Replicate()",))),
    backward=True,
)
#: What a script does wrong where it redistributes.
FAULT = "value.redistribute(placements=placements)"


class SourceTest(unittest.TestCase):
    def test_script(self) -> None:
        """It passes as it is; with a fault in the redistribution it fails and says where."""
        script = source_of(PROGRAM)
        self.assertNotIn("harness", script)
        right, wrong = alone(script), ended(script.replace(FAULT, f"{FAULT} * 2"))
        self.assertEqual(right.returncode, 0, right.stderr)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("AssertionError: value of v3 differs", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
