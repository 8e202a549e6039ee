"""Tests the compilers: what each calls, what is refused, that a planted fault is found and shrunk."""

from __future__ import annotations

import contextlib
import io
import itertools
import unittest
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

import torch
import torch._dynamo

from harness.fuzzing import compilers
from harness.fuzzing.compiled import AotFunctions, CompiledBackwards, CompiledFunctions, ExportedFunctions
from harness.fuzzing.functions import Inputs, TensorFunction
from harness.fuzzing.hunted import Place, Rejected
from harness.fuzzing.signature import of_exception

# No store is asked for.
PLACE = Place(0, 1, None)
# Seeds in which a planted fault has to be found.
SEEDS = 3
INPUTS = Inputs(("x0 = torch.arange(1.0, 5.0).requires_grad_()", "y0 = x0 * 1"), ("x0",), ("y0",))
FUNCTION = TensorFunction(INPUTS, ("t0 = a.sin()",), ("t0",), "f")


def said(fuzzer: CompiledFunctions, function: TensorFunction) -> str:
    """How a function fails in this process; the empty text where it passes or is rejected."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Rejected):
        try:
            fuzzer.run(function, PLACE)
        except Exception as error:  # noqa: BLE001  (what was planted decides what it is)
            return of_exception(error).text
    return ""


def shrunk(fuzzer: CompiledFunctions) -> tuple[TensorFunction, str]:
    """The first function of the seeds that fails, made smaller as long as it fails so."""
    for seed in range(SEEDS):
        for function in fuzzer.drawn(seed):
            failure = said(fuzzer, function)
            if not failure:
                continue
            while smaller := next((s for s in fuzzer.simpler(function) if said(fuzzer, s) == failure), None):
                function = smaller
            return function, failure
    raise AssertionError(f"nothing was found in {SEEDS} seeds")


class Exported:
    """What ``torch.export.export`` returns: a program whose module is a function."""

    def __init__(self, module: Callable[..., Any]) -> None:
        self.module = lambda: module


@contextlib.contextmanager
def exporting(change: Callable[..., Any]) -> Iterator[list[bool]]:
    """``torch.export.export`` that gives what ``change`` makes of the module; yields each ``strict``."""
    asked = []

    def export(module: Any, examples: Any, *, strict: bool) -> Exported:
        asked.append(strict)
        return Exported(change(module))

    with mock.patch("torch.export.export", export):
        yield asked


class AotTest(unittest.TestCase):
    def run_traced(self, body: str) -> None:
        for way in compilers.AOT:
            with self.subTest(way):
                AotFunctions().run(replace(FUNCTION, body=(body,), compiler=way), PLACE)

    def test_right(self) -> None:
        self.run_traced("t0 = a.mul_(2).sin()")

    def test_choice_by_data_is_rejected(self) -> None:
        for body in (
            "t0 = a.sin() if a.sum() > 3 else a.cos()",
            "a[a[0] > 2] = 1; t0 = a",
        ):
            for way in compilers.AOT:
                with self.subTest(body=body, way=way), contextlib.redirect_stdout(io.StringIO()) as printed:
                    with self.assertRaises(Rejected):
                        AotFunctions().run(replace(FUNCTION, body=(body,), compiler=way), PLACE)
                    self.assertIn("the function chooses by data: ", printed.getvalue())


class ExportTest(unittest.TestCase):
    def run_exported(self, body: str, strict: bool = False) -> None:
        way = f"exported(strict={strict})"
        ExportedFunctions().run(replace(FUNCTION, body=(body,), compiler=way), PLACE)

    def test_right(self) -> None:
        self.run_exported("t0 = a.mul_(2).sin()")

    def test_strict_is_passed(self) -> None:
        with exporting(lambda module: module) as asked:
            self.run_exported("t0 = a.sin()", strict=True)
            self.run_exported("t0 = a.sin()")
        self.assertEqual(asked, [True, False])

    def test_restriction_is_rejected(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed, self.assertRaises(Rejected):
            self.run_exported("t0 = a.sin() if a.sum() > 3 else a.cos()", strict=True)
        self.assertIn("export does not support it", printed.getvalue())

    def test_choice_by_data_is_rejected(self) -> None:
        """Without strict, export says so by the error of symbolic sizes itself."""
        with contextlib.redirect_stdout(io.StringIO()) as printed, self.assertRaises(Rejected):
            self.run_exported("t0 = a.sin() if a.sum() > 3 else a.cos()")
        self.assertIn("data-dependent", printed.getvalue())

    def test_lost_write_is_found_and_shrunk(self) -> None:
        with exporting(lambda module: lambda *args: module(*(each.clone() for each in args))):
            function, failure = shrunk(ExportedFunctions())
        self.assertRegex(failure, "^(argument|output)")
        self.assertLessEqual(len(function.body), 1)


class MarkTest(unittest.TestCase):
    def test_sizes_but_one_are_marked(self) -> None:
        marks: list[tuple[int, ...]] = []
        text = compilers.helpers("marked(f)", "a")
        scope: dict[str, Any] = {"torch": torch, "note": lambda each, at: marks.append((*each.shape, at))}
        exec(
            f"{text}\nmarked(lambda *each: each, note)(torch.ones(1, 3), torch.ones(0), torch.ones(2, 2))",
            scope,
        )
        self.assertEqual(marks, [(1, 3, 1), (2, 2, 0), (2, 2, 1)])

    def test_certain_size_is_rejected(self) -> None:
        strict = next(each for each in compilers.DYNAMO if "._dynamo.mark_dynamic" in each)
        function = replace(FUNCTION, body=("t0 = a * a.split(1)[-1]",), compiler=strict)
        with (
            contextlib.redirect_stdout(io.StringIO()),
            self.assertLogs("torch._guards"),
            self.assertRaises(Rejected),
        ):
            CompiledFunctions().run(function, PLACE)
        CompiledFunctions().run(replace(FUNCTION, compiler=strict), PLACE)


class CompiledAutogradTest(unittest.TestCase):
    def test_backwards_are_compiled(self) -> None:
        graphs: list[Any] = []

        def compile(graph: Any, **options: Any) -> Any:
            graphs.append(graph)
            return graph

        with mock.patch("torch.compile", compile):
            CompiledBackwards().run(replace(FUNCTION, compiler=compilers.COMPILED_AUTOGRAD[0]), PLACE)
        self.assertTrue(graphs)
        self.assertTrue(all(isinstance(each, torch.fx.GraphModule) for each in graphs))

    def test_wrong_gradient_is_found_and_shrunk(self) -> None:
        def compile(graph: Any, **options: Any) -> Any:
            def wrong(inputs: Any, *rest: Any) -> Any:
                return graph([each * 2 if each.is_floating_point() else each for each in inputs], *rest)

            return wrong

        with (
            mock.patch("torch.compile", compile),
            mock.patch.object(CompiledBackwards, "compilers", compilers.COMPILED_AUTOGRAD[:1]),
        ):
            function, failure = shrunk(CompiledBackwards())
        self.assertIn("gradient of leaf", failure)
        self.assertLessEqual(len(function.body), 1)


class AutocastTest(unittest.TestCase):
    def test_lost_autocast_is_found(self) -> None:
        body = ('with torch.autocast("cpu", torch.bfloat16): t0 = a @ b',)
        inputs = replace(INPUTS, arguments=("y0", "y0"))
        function = replace(FUNCTION, inputs=inputs, body=body, compiler="lambda a, b: [a @ b]")
        self.assertIn("output #: values", said(CompiledFunctions(), function))
        self.assertEqual(said(CompiledFunctions(), replace(function, compiler=compilers.DYNAMO[0])), "")


class PlainerTest(unittest.TestCase):
    def test_each_gets_plainer_until_it_is_plain(self) -> None:
        kinds = (compilers.DYNAMO, compilers.INDUCTOR, compilers.AOT, compilers.EXPORT)
        for compiler in {*itertools.chain(*kinds, compilers.COMPILED_AUTOGRAD)}:
            seen = {compiler}
            while plainer := compilers.plainer_compilers(compiler):
                compiler = plainer[-1]
                self.assertNotIn(compiler, seen)
                seen.add(compiler)
            self.assertNotIn("True", compiler.replace("keep_inference_input_mutations=True", ""))


if __name__ == "__main__":
    unittest.main()
