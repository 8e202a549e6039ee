"""Tests DDP programs as the hunt's: their scripts run alone and fail where DDP is wrong."""

from __future__ import annotations

import itertools
import unittest

from harness.fuzzing.ddp.hunted import WORLD_SIZES, DdpPrograms
from harness.fuzzing.ddp.program import DdpProgram, Step
from suites.selftest.fuzzing.scripts import alone, ended

OPTIONS = (("gradient_as_bucket_view", True),)
PROGRAM = DdpProgram(2, ("linear", "buffer"), OPTIONS, (Step(2), Step()), "python")


class HuntedTest(unittest.TestCase):
    def test_ranks(self) -> None:
        """All programs of a seed have as many ranks."""
        fuzzer, sizes = DdpPrograms(), set()
        for seed in range(12):
            own = {fuzzer.world_size(each) for each in itertools.islice(fuzzer.drawn(seed), 3)}
            self.assertEqual(len(own), 1)
            sizes |= own
        self.assertEqual(sizes, set(WORLD_SIZES))

    def test_structure(self) -> None:
        expected = "linear; buffer; gradient_as_bucket_view; python; step(2); step(1)"
        self.assertEqual(DdpPrograms().structure(PROGRAM), expected)

    def test_script(self) -> None:
        """The script passes as it is; with a hook that does not average it names a gradient."""
        script = DdpPrograms().script(PROGRAM)
        self.assertNotIn("harness", script)
        right, wrong = alone(script), ended(script.replace("[0] / world", "[0]"))
        self.assertEqual(right.returncode, 0, right.stderr)
        self.assertEqual(wrong.returncode, 1)
        self.assertIn("AssertionError: gradient of first.weight differs", wrong.stderr)


if __name__ == "__main__":
    unittest.main()
