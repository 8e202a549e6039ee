"""Tests the fuzzer of train steps: a planted fault is found and shrunk, scripts run by themselves."""

from __future__ import annotations

import itertools
import unittest
from dataclasses import replace
from unittest import mock

import torch.distributed as dist

from harness.errors import UsageError
from harness.fuzzing.fresh_process import START_S, run_script
from harness.fuzzing.hunted import Place, Rejected
from harness.fuzzing.signature import of_exception
from harness.fuzzing.steps.hunted import StepPrograms
from harness.fuzzing.steps.program import Call, StepProgram
from harness.graphs.train_step import StepGraph

# No store is asked for.
PLACE = Place(0, 1, None)
PROGRAM = StepProgram(1, ("linear",), "SGD", (), (("warm_up", True),), (Call(), Call()))


def said(program: StepProgram) -> str:
    """How a program fails in this process; the empty text where it passes or is rejected."""
    try:
        StepPrograms().run(program, PLACE)
    except Rejected:
        return ""
    except AssertionError as error:
        return of_exception(error).text
    return ""


class HuntedTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls) -> None:
        """One group of one rank for all tests."""
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        cls.addClassCleanup(dist.destroy_process_group)

    def test_planted_fault_is_found_and_shrunk(self) -> None:
        fuzzer, run = StepPrograms(), StepGraph.run

        def wrong(graph: StepGraph, inputs: object) -> object:
            """Forgets what a graph does to BatchNorm's count of batches."""
            counts = [b for n, b in graph.mod.named_buffers() if "num_batches" in n]
            kept = [each.clone() for each in counts]
            found = run(graph, inputs)  # type: ignore[arg-type]  # the inputs of a step
            for each, old in zip(counts, kept, strict=True):
                each.copy_(old)
            return found

        program = replace(PROGRAM, blocks=("scalar", "norm", "linear"), optimizer="Adam")
        with mock.patch.object(StepGraph, "run", wrong):
            failure = said(program)
            self.assertRegex(failure, "buffer norm#?.num_batches_tracked differs")
            while smaller := next((s for s in fuzzer.simpler(program) if "num_batches" in said(s)), None):
                program = smaller
        self.assertEqual(program.blocks, ("norm",))
        self.assertEqual(program.optimizer, "SGD")
        self.assertEqual(said(program), "")

    def test_first_programs_pass(self) -> None:
        fuzzer = StepPrograms()
        for program in itertools.islice(fuzzer.drawn(2), 4):
            self.assertEqual(said(replace(program, world_size=1)), "")

    def test_what_the_tracer_refuses_is_rejected(self) -> None:
        with (
            mock.patch.object(StepGraph, "run", side_effect=UsageError("no graph")),
            self.assertRaisesRegex(Rejected, "no graph"),
        ):
            StepPrograms().run(PROGRAM, PLACE)

    def test_structure_has_no_rates(self) -> None:
        other = replace(PROGRAM, calls=(Call(rate=0.25), Call()))
        self.assertEqual(StepPrograms().structure(other), StepPrograms().structure(PROGRAM))


class ScriptTest(unittest.TestCase):
    def test_scripts_run(self) -> None:
        text = StepPrograms().script(replace(PROGRAM, world_size=2))
        self.assertEqual(run_script(text, START_S), (None, ""))

    def test_script_of_a_fault(self) -> None:
        text = StepPrograms().script(PROGRAM)
        wrong = text.replace("return h, ignored", "return h * (1 + 0.5 * isinstance(x, FakeTensor)), ignored")
        wrong = wrong.replace(
            "from torch import nn", "from torch import nn\nfrom torch._subclasses import FakeTensor"
        )
        failure, _ = run_script(wrong, START_S)
        assert failure is not None
        self.assertIn("what the step returns differs", failure.text)


if __name__ == "__main__":
    unittest.main()
