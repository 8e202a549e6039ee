"""Tests FSDP1 programs as the hunt's: their scripts run alone, and fail where FSDP1 is wrong."""

from __future__ import annotations

import itertools
import unittest

from harness.fuzzing.fsdp.program import Step
from harness.fuzzing.fsdp1.hunted import Fsdp1Programs
from harness.fuzzing.fsdp1.program import Fsdp1Program
from suites.selftest.fuzzing.scripts import alone, ended

STEPS = (Step(2), Step(1, restores="sharded"))
BLOCKS = (("odd", "unit"), ("buffer", ""))
PROGRAM = Fsdp1Program((2,), BLOCKS, 1, True, (("orig", True),), STEPS, "momentum")
#: Faults of FSDP1, planted before each backward, and what the script then says.
FAULTS = {
    "module._gradient_predivide_factor = 1.0": "gradient of first.weight differs",
    "module._flat_param.data.mul_(2)": "gradient of first.weight differs",
    "[each.zero_() for each in module.buffers()]": "gradient of first.weight differs",
}
PLACE = "                backward(module, batch(rank, step, number).to(dtype))\n"


CLIPPING = Fsdp1Program((2,), BLOCKS, None, False, (("orig", True), ("single", True)), (Step(clips=True),))


class HuntedTest(unittest.TestCase):
    def test_drawn(self) -> None:
        fuzzer = Fsdp1Programs()
        for program in itertools.islice(fuzzer.drawn(1), 20):
            self.assertIsInstance(program, Fsdp1Program)
            self.assertEqual(fuzzer.from_json(fuzzer.to_json(program)), program)

    def test_script(self) -> None:
        """The script passes as it is."""
        script = Fsdp1Programs().script(PROGRAM)
        self.assertNotIn("harness", script)
        done = alone(script)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_faults(self) -> None:
        """With a fault of FSDP1 the script names what is wrong."""
        script = Fsdp1Programs().script(PROGRAM)
        for fault, text in FAULTS.items():
            with self.subTest(fault):
                done = ended(script.replace(PLACE, f"                {fault}\n{PLACE}"))
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"AssertionError: {text}", done.stderr)

    def test_clips(self) -> None:
        """The gradients of a module of float32 are clipped by the norm of all of them, not of a rank's."""
        script = Fsdp1Programs().script(CLIPPING)
        done = ended(script)
        self.assertEqual(done.returncode, 0, done.stderr)
        own = "nn.utils.clip_grad_norm_(module.parameters(), LIMIT)"
        done = ended(script.replace("module.clip_grad_norm_(LIMIT)", own))
        self.assertRegex(done.stderr, r"AssertionError: gradient of \S+ differs")


if __name__ == "__main__":
    unittest.main()
