"""Tests FSDP programs as the hunt's: their scripts run alone, and fail where FSDP is wrong."""

from __future__ import annotations

import itertools
import unittest

from harness.fuzzing.fsdp.hunted import WORLD_SIZES, FsdpPrograms
from harness.fuzzing.fsdp.program import COMPILED, FsdpProgram, Step
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


#: A program that goes on with another mesh, and one of which is compiled what an option says.
RESIZED = FsdpProgram((2,), (("odd", ""),), None, False, (), (Step(), Step(restores="resized")), "momentum")
COMPILING = {
    each: FsdpProgram((2,), (("odd", ""),), 0, True, (("compile", each),), (Step(),)) for each in COMPILED
}
#: A compiler whose code gives the half.
HALVING = "lambda graph, _: lambda *given: [each / 2 for each in graph(*given)]"


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

    def test_resized(self) -> None:
        """The states come to the other mesh; one that is not read from the checkpoint is named."""
        script = FsdpPrograms().script(RESIZED)
        done = ended(script, FsdpPrograms.imports)
        self.assertEqual(done.returncode, 0, done.stderr)
        done = ended(script.replace("torch.distributed.checkpoint.load(", "dict("), FsdpPrograms.imports)
        self.assertIn("AssertionError: gradient of first.weight differs", done.stderr)

    def test_compiled(self) -> None:
        """What is compiled is used."""
        for name, program in COMPILING.items():
            script = FsdpPrograms().script(program)
            with self.subTest(name):
                done = ended(script, FsdpPrograms.imports)
                self.assertEqual(done.returncode, 0, done.stderr)
                done = ended(script.replace('"aot_eager"', HALVING), FsdpPrograms.imports)
                self.assertRegex(done.stderr, r"AssertionError: gradient of \S+ differs")


if __name__ == "__main__":
    unittest.main()
