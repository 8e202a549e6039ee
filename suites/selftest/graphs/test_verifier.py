"""``Verifier``: what it refuses, what it reports, and its later calls of a compiled function."""

from __future__ import annotations

import itertools
import traceback
import unittest
from typing import Any

import torch

from harness import UsageError
from harness.graphs import MismatchError, UnbackedSize, nop, verify_aot
from harness.graphs.verifier import add_note, require_known
from suites.selftest.graphs.verifying import (
    VerifyTestCase,
    from_second_on,
    inputs,
    on_outputs,
    put,
    triple,
    writes,
)


class RefusedTest(VerifyTestCase):
    """Functions and inputs that cannot be verified."""

    def test_inputs_that_differ(self) -> None:
        """A callable that makes other values each time is refused, unless they are random or hidden."""
        made = itertools.count()

        def other() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            return [], [torch.ones(2, 2), torch.full((2, 2), float(next(made)))]

        def alike() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            around = torch.full((4, 3), float(next(made)))
            around[:, :2] = 1
            return [], [torch.rand(2, 2), around[:2, :2]]

        self.assertRefused(
            r"makes other values each time: input 1 \(b\): values differ: at \[0, 0\] 1.0 compiled, 0.0",
            writes,
            other,
        )
        verify_aot(writes, alike)

    def test_outputs(self) -> None:
        """A function that returns what no graph can return is refused."""
        self.assertRefused(
            r"output\['kind'\] is a object: a function that is compiled ahead of time returns tensors",
            lambda a: {"kind": object()},
            [torch.ones(2)],
        )

    def test_captured_tensors(self) -> None:
        """A captured tensor is a UsageError, although torch raises an AssertionError for it."""
        scale = torch.ones(2)
        self.assertRefused(
            r"(?s)a tensor that is neither an argument nor .*: make it one of these \(.*FakeTensors first",
            lambda a: a * scale,
            [torch.ones(2)],
        )

    def test_other_layouts(self) -> None:
        """With an argument that is not strided, torch's error is raised as it is: it may be about that."""
        given = torch.eye(2).to_sparse()
        scale = torch.ones(2, 2)
        with self.assertRaisesRegex(AssertionError, "FakeTensors first") as caught:
            verify_aot(lambda a: a * scale, [given])
        self.assertNotIsInstance(caught.exception, UsageError)

    def test_unbacked_sizes(self) -> None:
        """A size or number that depends on data raises UnbackedSize, whose cause is torch's error."""
        functions = (lambda a: a * 2 if a.sum() > 3 else a, lambda a: a[: int(a.sum())])
        for function, dynamic in (
            *((f, d) for f in functions for d in (False, True)),
            (torch.nonzero, False),
        ):
            with self.assertRaisesRegex(UnbackedSize, "only known from data") as caught:
                verify_aot(function, [torch.ones(4)], dynamic=dynamic)
            self.assertIsNotNone(caught.exception.__cause__)
            self.assertEqual("compute it outside, or try dynamic=True" in str(caught.exception), not dynamic)
        # With symbolic sizes a graph may have a size that no input has.
        result = verify_aot(torch.nonzero, [torch.ones(4)], dynamic=True)
        self.assertEqual(result.returned.shape, (4, 1))


class ReportTest(VerifyTestCase):
    """What ``MismatchError`` and the notes on errors say."""

    def test_differences(self) -> None:
        """``MismatchError`` has the differences that its message lists, a line each."""
        double = on_outputs(put(1, lambda output: 2 * output))
        with self.assertRaises(MismatchError) as caught:
            verify_aot(writes, inputs(), front_end=double)
        lines = [f"  {difference}" for difference in caught.exception.differences]
        self.assertGreater(len(lines), 0)
        self.assertEqual(str(caught.exception).split("\n")[1 : 1 + len(lines)], lines)

    def test_settings(self) -> None:
        """The first line names the function, the front end, and how the function was compiled."""
        for keep, dynamic, text in (
            (True, False, "(backend 'nop', static, input mutations in the graph):"),
            (False, True, "(backend 'nop', dynamic, input mutations after the graph):"),
        ):
            message = self.assertDiffers(
                front_end=on_outputs(put(1, torch.neg)), keep_input_mutations=keep, dynamic=dynamic
            )
            self.assertEqual(message.split("\n")[0], f"writes compiled by changed differs from eager {text}")

    def test_plain_outputs(self) -> None:
        """Numbers, strings, dtypes, devices and None may be returned beside tensors, other objects not."""
        require_known({"a": 1, "b": 1.5, "c": 1j, "d": True, "e": "x", "f": None, "g": torch.int8})
        for value in (object(), {1}, torch.strided):
            with self.subTest(value=value), self.assertRaisesRegex(UsageError, "^the output is a "):
                require_known({"the output": value})

    def test_notes(self) -> None:
        """A note is shown with the error, after the error's own text."""
        try:
            raise ValueError("own text")
        except ValueError as error:
            add_note(error, "the note")
            self.assertRegex("".join(traceback.format_exception(error)), "own text\n+.*the note")


class MoreInputsTest(VerifyTestCase):
    """The argument ``more_inputs`` of ``verify_aot``."""

    def test_sizes(self) -> None:
        """The further inputs are a list or a callable, and may have other sizes if sizes are symbolic."""
        sizes: list[Any] = [
            [torch.ones(3, 3), torch.ones(3, 3)],
            lambda: ([], [torch.ones(5, 5), torch.ones(5, 5)]),
        ]
        verify_aot(writes, inputs(), dynamic=True, more_inputs=sizes)
        verify_aot(
            writes, inputs(), dynamic=True, requires_grad=True, test_mutation=True, more_inputs=sizes[:1]
        )
        verify_aot(torch.nn.BatchNorm1d(3), [torch.randn(4, 3)], more_inputs=[[torch.ones(4, 3)]])

    def test_differences(self) -> None:
        """A compiled function that returns the first call's results for all inputs is found."""

        message = self.assertDiffers(
            "the output: values differ: at [0] 3.0 compiled, 6.0 in eager (2 of 2 elements)",
            function=triple,
            inputs=[torch.ones(2)],
            requires_grad=None,
            test_mutation=False,
            backend=from_second_on(lambda first, outputs: [first[0].clone()]),
            more_inputs=[[torch.ones(2)], [torch.full((2,), 2.0)]],
        )
        self.assertIn("input mutations in the graph, more_inputs[1]):", message)

    def test_errors(self) -> None:
        """An error of eager has a note that says which inputs it is about."""
        with self.assertRaisesRegex(RuntimeError, "must match the size") as caught:
            verify_aot(writes, inputs(), more_inputs=[[torch.ones(2, 2), torch.ones(3, 3)]])
        said = "\n".join([*caught.exception.args, *getattr(caught.exception, "__notes__", ())])
        self.assertIn("This is the function itself, in eager: of more_inputs=.", said)

    def test_graphs(self) -> None:
        """The result is that of the first call."""
        result = verify_aot(triple, [torch.ones(2)], more_inputs=[[torch.zeros(2)]])
        self.assertEqual(result.returned, torch.full((2,), 3.0))

    def test_usage(self) -> None:
        """``more_inputs`` has to be a list of inputs."""
        for more, text in ((3, "more_inputs=3: give a list"), ([3], "inputs is a int: give a list")):
            with self.subTest(more=more), self.assertRaisesRegex(UsageError, text):
                verify_aot(writes, inputs(), more_inputs=more)  # type: ignore[arg-type]


class ModuleTest(VerifyTestCase):
    """A module has the same state at the second call of its compiled copy as at the first."""

    def test_state(self) -> None:
        """Buffers that are written to are restored, also if arguments are or alias the module's tensors."""

        class Counting(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(2))
                self.mean: torch.Tensor
                self.register_buffer("mean", torch.zeros(4)[:2])

            def forward(self, a: torch.Tensor) -> torch.Tensor:
                self.mean.lerp_(a.detach(), 0.5)
                return a * self.weight + self.mean

        module = Counting()
        given = [torch.full((2,), 3.0), module.weight, module.weight.detach()[1:]]
        for argument in given:
            with self.subTest(argument):
                verify_aot(module, [argument], backend=nop)

    def test_not_restored(self) -> None:
        """A module whose call changes a buffer's size is called once only, and refuses ``more_inputs``."""

        class Grows(torch.nn.Module):  # type: ignore[misc]  # torch is untyped to mypy here
            def __init__(self) -> None:
                super().__init__()
                self.seen: torch.Tensor
                self.register_buffer("seen", torch.ones(2, 3))

            def forward(self, a: torch.Tensor) -> torch.Tensor:
                self.seen.t_()
                return a + 1

        verify_aot(Grows(), [torch.ones(2)], keep_input_mutations=True)
        with self.assertRaisesRegex(UsageError, r"more_inputs=: .*Grows cannot be called again"):
            verify_aot(Grows(), [torch.ones(2)], more_inputs=[[torch.ones(2)]])


if __name__ == "__main__":
    unittest.main()
