"""Tests the functions that are drawn: eager runs them, no write is undefined, the structure is plain."""

from __future__ import annotations

import random
import unittest
from dataclasses import replace
from unittest import mock

import torch

from harness.fuzzing import compiled
from harness.fuzzing.compiled import AotFunctions, CompiledFunctions, ExportedFunctions, renamed
from harness.fuzzing.compilers import EXPORT
from harness.fuzzing.functions import Inputs, TensorFunction
from harness.fuzzing.hunted import Place

# No store is asked for.
PLACE = Place(0, 1, None)


class ProcessTest(unittest.TestCase):
    def test_one_runs_several_programs(self) -> None:
        """What a script defines is looked up in it, and not in the first one that the process ran."""
        inputs = Inputs(("x0 = torch.ones(3)", "y0 = x0 * 1"), (), ("y0",))
        for line in ("t0 = a.sin()", "t0 = Doubled.apply(a)"):
            ExportedFunctions().run(TensorFunction(inputs, (line,), ("t0",), EXPORT[1]), PLACE)


class DrawnTest(unittest.TestCase):
    def test_eager_runs_them(self) -> None:
        drawn = list(CompiledFunctions().drawn(3))
        self.assertGreater(len(drawn), compiled.BATCH // 2)
        for function in drawn:
            CompiledFunctions().run(replace(function, compiler="f"), PLACE)

    def test_simpler_ones_run_in_eager(self) -> None:
        function = max(CompiledFunctions().drawn(3), key=lambda each: len(each.body))
        simpler = list(CompiledFunctions().simpler(function))
        self.assertTrue(simpler)
        self.assertTrue(all(each.runs_in_eager() for each in simpler))

    def test_only_dynamo_has_second_inputs(self) -> None:
        self.assertTrue(any(function.again for function in CompiledFunctions().drawn(5)))
        self.assertFalse(any(function.again for function in AotFunctions().drawn(5)))


class _Least(random.Random):
    """Decides for whatever has a probability."""

    def random(self) -> float:
        return 0.0


class DefinedTest(unittest.TestCase):
    def test_writes(self) -> None:
        base = torch.arange(4.0)
        for written, read, reads, defined in (
            (base, base[1:], False, True),
            (base, base[1:], True, False),
            (base, base, True, True),
            (base[1:], base.clone(), True, True),
            (base.expand(2, 4), base, False, False),
        ):
            with self.subTest(shape=written.shape, reads=reads):
                self.assertEqual(compiled._defined(written, read, reads=reads), defined)

    def test_second_inputs(self) -> None:
        """No argument overlaps itself that did not in the first call: the function may write to it."""
        plain, wide = (Inputs(("y0 = torch.ones(2)",), (), (each,)) for each in ("y0", "y0.expand(2, 2)"))
        for first, second, taken in ((plain, wide, None), (wide, plain, plain), (plain, plain, plain)):
            inputs = mock.patch.object(compiled, "_inputs", side_effect=[first, second])
            body = mock.patch.object(compiled, "_body", return_value=(("t0 = a + 1",), ["t0"]))
            with inputs, body:
                drawn = compiled._function(_Least(0), CompiledFunctions())
            self.assertEqual((drawn.inputs, drawn.again), (first, taken))

    def test_overlap(self) -> None:
        arguments = ("y0", "y0.expand(2, *y0.shape)", "y0[1:]", "y0.view(-1, 1).expand(-1, 3)")
        inputs = Inputs(("y0 = torch.arange(4.0)",), (), arguments)
        self.assertEqual(compiled._overlap(inputs), {1, 3})


class StructureTest(unittest.TestCase):
    def test_names_by_first_use(self) -> None:
        self.assertEqual(renamed("t3 = t7 + a; t7.view(2)"), renamed("t0 = t1 + a; t1.view(2)"))
        self.assertNotEqual(renamed("t0 = t1 + t1"), renamed("t0 = t1 + t2"))

    def test_options_and_arguments_count(self) -> None:
        fuzzer = AotFunctions()
        function = next(iter(fuzzer.drawn(1)))
        first, *others = function.inputs.arguments
        for changed in (
            replace(function, compiler="other"),
            replace(function, inputs=replace(function.inputs, arguments=(f"{first}.clone()", *others))),
            replace(function, body=(*function.body, "a.sin_()")),
        ):
            self.assertNotEqual(fuzzer.structure(function), fuzzer.structure(changed))

    def test_writes_that_are_not_recorded(self) -> None:
        """Told of arguments, at the end, and not of what the function makes itself."""
        setup = ("x0 = torch.arange(3.0).requires_grad_()", "y0 = x0 * 1")
        inputs = Inputs(setup, ("x0",), ("y0", "y0.clone()"))
        for body, told in (
            (("with torch.no_grad(): b.mul_(2)",), "backend, unrecorded writes to b"),
            (("t0 = a * 1", "with torch.no_grad(): t0.mul_(2)"), "backend"),
        ):
            text = AotFunctions().structure(TensorFunction(inputs, body, ("a",), "backend"))
            self.assertEqual(text.rpartition(" | ")[2], told)


if __name__ == "__main__":
    unittest.main()
