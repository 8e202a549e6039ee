"""Tests FSDP programs as the hunt's: their scripts run alone, and fail where FSDP is wrong."""

from __future__ import annotations

import itertools
import unittest

from harness.fuzzing.fsdp.hunted import WORLD_SIZES, FsdpPrograms
from harness.fuzzing.fsdp.program import FsdpProgram, Step
from suites.selftest.fuzzing.scripts import alone, ended

STEPS = (Step(2, "kept"), Step(1, restores="sharded", clips=True))
BLOCKS = (("odd", "unit"), ("buffer", ""))
PROGRAM = FsdpProgram((2,), BLOCKS, 1, True, (("reshard", False),), STEPS, "momentum")
#: Faults of FSDP, and what the script then says.
FAULTS = {
    "fsdp.set_gradient_divide_factor(1.0)": "gradient of first.weight differs",
    "fsdp.set_requires_gradient_sync(False)": "gradient of first.weight is None",
    "[each.zero_() for each in module.buffers()]": "gradient of first.weight differs",
}
PLACE = "            backward(module, batch(rank, step, number))\n"


class HuntedTest(unittest.TestCase):
    def test_ranks(self) -> None:
        """All programs of a seed have as many ranks."""
        fuzzer, sizes = FsdpPrograms(), set()
        for seed in range(12):
            own = {fuzzer.world_size(each) for each in itertools.islice(fuzzer.drawn(seed), 3)}
            self.assertEqual(len(own), 1)
            sizes |= own
        self.assertEqual(sizes, set(WORLD_SIZES))

    def test_structure(self) -> None:
        expected = (
            "unit odd; unit inner:; buffer; mesh(2); reshard=False; momentum; step(2, kept);"
            " step(1, clips, restores sharded)"
        )
        self.assertEqual(FsdpPrograms().structure(PROGRAM), expected)

    def test_script(self) -> None:
        """The script passes as it is."""
        script = FsdpPrograms().script(PROGRAM)
        self.assertNotIn("harness", script)
        done = alone(script)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_faults(self) -> None:
        """With a fault of FSDP the script names what is wrong."""
        script = FsdpPrograms().script(PROGRAM)
        for fault, text in FAULTS.items():
            with self.subTest(fault):
                wrong = script.replace(PLACE, f"            {fault}\n{PLACE}")
                done = ended(wrong, FsdpPrograms.imports)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"AssertionError: {text}", done.stderr)


if __name__ == "__main__":
    unittest.main()
