"""``verify_aot`` finds each planted fault of a compiler, and its message says where the fault is."""

from __future__ import annotations

import unittest
from collections.abc import Sequence
from typing import Any

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor

from harness import UsageError
from harness.graphs import AotFunction, Compilation, nop, verify_aot
from suites.selftest.graphs.verifying import (
    Changed,
    Function,
    VerifyTestCase,
    inputs,
    on_gradients,
    on_outputs,
    products,
    put,
    writes,
)

# The difference that is reported when the write to the first argument of ``writes`` is lost.
LOST_WRITE = (
    "input 0 (a): values differ: at [0, 0] 1.0 compiled, 2.0 in eager (4 of 4 elements) after the call"
)


class FaultTest(VerifyTestCase):
    """One kind of fault in each test."""

    def test_eager_returned(self) -> None:
        """Eager code that runs in place of compiled code is found, although all results are equal."""
        self.assertDiffers(
            "compilation: no graph came to the compilers: what ran is not compiled code",
            front_end=Changed(lambda compiled, eager, arguments: eager(*arguments)),
        )

        def compiles_and_forgets(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
            compiled(*(argument.detach().clone().requires_grad_() + 0 for argument in arguments))
            return eager(*arguments)

        self.assertDiffers(
            "backward: no compiled one ran: the gradients come from elsewhere",
            front_end=Changed(compiles_and_forgets),
        )

    def test_eager_copies(self) -> None:
        """Outputs that are copies, and so alias nothing any more, are found."""
        message = self.assertDiffers(
            "output 0: shares memory with nothing compiled, input 0 (a) in eager",
            "output 1: shares memory with nothing compiled, output 2 in eager",
            front_end=on_outputs(
                lambda outputs: outputs.__setitem__(slice(None), [o.clone() for o in outputs])
            ),
        )
        self.assertIn(
            "writes compiled by changed differs from eager (backend 'nop', static, input mut", message
        )
        self.assertIn("\nforward(primals_1, primals_2)\n", message)

    def test_lost_mutation(self) -> None:
        """A write to an input that is lost is found, whether it belongs in the graph or after it."""

        def without_copy(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
            for node in graph.graph.find_nodes(op="call_function", target=torch.ops.aten.copy_.default):
                graph.graph.erase_node(node)
            graph.recompile()
            return nop(graph, example)

        self.assertDiffers(
            LOST_WRITE,
            backend=without_copy,
            requires_grad=None,
            keep_input_mutations=True,
        )

        def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
            return compiled(arguments[0].clone(), arguments[1])

        self.assertDiffers(
            LOST_WRITE,
            front_end=Changed(call),
        )

    def test_lost_metadata_mutation(self) -> None:
        """A lost change of an input's sizes and strides is found."""

        def transposes(a: torch.Tensor) -> torch.Tensor:
            a.t_()
            return a + 1

        def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
            return compiled(arguments[0].view_as(arguments[0]))

        self.assertDiffers(
            "input 0 (a): shape (2, 3) compiled, (3, 2) in eager after the call",
            function=transposes,
            inputs=[torch.ones(2, 3)],
            front_end=Changed(call),
        )

    def test_lost_alias(self) -> None:
        """A lost alias of an input or another output is found by its storage and by a write to the output."""
        self.assertDiffers(
            "output 0: shares memory with nothing compiled, input 0 (a) in eager",
            "input 0 (a): values differ: at [0, 0] 2.0 compiled, 4.0 in eager (4 of 4 elements) "
            "after writing to output 0",
            front_end=on_outputs(put(0, torch.clone)),
        )
        self.assertDiffers(
            "output 2: shares memory with nothing compiled, output 1 in eager",
            front_end=on_outputs(put(2, torch.clone)),
        )

    def test_alias_too_many(self) -> None:
        """Two outputs that share memory only when compiled are found."""
        self.assertDiffers(
            "output 0: shares memory with output 1 compiled, nothing in eager",
            "output 1: shares memory with output 0 compiled, nothing in eager",
            function=lambda a, b: (a * 2, a * 2),
            front_end=on_outputs(lambda outputs: outputs.__setitem__(1, outputs[0].detach())),
            requires_grad=False,
        )

    def test_returned_input(self) -> None:
        """An output that is a view of an input, where eager returns the input itself, is found."""
        self.assertDiffers(
            "output 0: is the object of nothing compiled, input 0 (a) in eager",
            function=lambda a, b: (a, a * b),
            front_end=on_outputs(put(0, lambda a: a.view_as(a))),
            requires_grad=False,
        )

    def test_gradients(self) -> None:
        """A gradient that is doubled, missing, zero, or exchanged for another is found."""

        def exchange(gradients: list[Any]) -> None:
            gradients.reverse()

        for change, text in (
            (
                put(1, lambda g: 2 * g),
                "values differ: at [0, 0] 1.0 compiled, 0.5 in eager (4 of 4 elements)",
            ),
            (put(1, lambda g: None), "values differ: at [0, 0] 0.0 compiled, 0.5 in eager (4 of 4 elements)"),
            (
                put(1, torch.zeros_like),
                "values differ: at [0, 0] 0.0 compiled, 0.5 in eager (4 of 4 elements)",
            ),
        ):
            self.assertDiffers(
                f"gradient of input 1 (b) through output 1: {text}", backend=on_gradients(change)
            )
        self.assertDiffers(
            "gradient of input 0 (a) through output 1: values differ: at [0, 0] 0.5 compiled, 2.5 in eager "
            "(4 of 4 elements)",
            "gradient of input 1 (b) through output 1: values differ: at [0, 0] 2.5 compiled, 0.5 in eager "
            "(4 of 4 elements)",
            backend=on_gradients(exchange),
        )

    def test_zeros_for_no_gradient(self) -> None:
        """A gradient that no output has in eager is a fault; zeros through one of several outputs are not."""

        def first(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a * 2

        self.assertDiffers(
            "gradient of input 1 (b): there is one compiled, none through anything in eager",
            function=first,
            test_mutation=False,
            backend=on_gradients(put(1, lambda gradient: torch.zeros(2, 2))),
        )
        verify_aot(lambda a, b: (a * 2, b * 3), inputs(), requires_grad=True)
        verify_aot(first, inputs(), requires_grad=True)

    def test_gradient_through_written_input(self) -> None:
        """A wrong gradient through a written input is found, unless ``mutation_gradients`` is off."""

        def adds(a: torch.Tensor, b: torch.Tensor) -> None:
            a.add_(b)

        found = (
            "gradient of input 1 (b) through the written input 0 (a): values differ: at [0, 0] 0.5 compiled, "
        )
        found += "0.25 in eager (4 of 4 elements)"
        backend = on_gradients(put(1, lambda gradient: 2 * gradient))
        for keep in (False, True):
            self.assertDiffers(found, function=adds, backend=backend, keep_input_mutations=keep)
        verify_aot(adds, inputs(), requires_grad=True, test_mutation=True)
        verify_aot(
            adds,
            inputs(),
            requires_grad=True,
            test_mutation=True,
            backend=backend,
            mutation_gradients=False,
        )

    def test_distributed_tensors(self) -> None:
        """DTensors are copied and compared by their parts, some of which are not tensors."""
        store = torch.distributed.HashStore()
        torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
        self.addCleanup(torch.distributed.destroy_process_group)
        mesh = init_device_mesh("cpu", (1,))
        given = [distribute_tensor(each, mesh, [Shard(0)]).requires_grad_() for each in inputs()]
        verify_aot(torch.mul, given)

        def doubles(gradients: list[Any]) -> None:
            gradients[0] = 2 * gradients[0]

        self.assertDiffers(
            "gradient of input 0 through the output: its part ._local_tensor has values differ: at [0, 0] "
            "2.5 compiled, 1.25 in eager (4 of 4 elements)",
            function=torch.mul,
            inputs=given,
            requires_grad=None,
            test_mutation=False,
            backend=on_gradients(doubles),
        )

    def test_gradient_of_one_output(self) -> None:
        """Gradients are compared for each output: faults that cancel in the sum of outputs are found."""

        def two(a: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return a * 2, a * 3

        def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
            first, second = compiled(*arguments)
            return first + second - second.detach(), second - first + first.detach()

        # The sum of both outputs has the right gradient.
        self.assertDiffers(
            "gradient of input 0 (a) through output 0: values differ: at [0] 1.25 compiled, 0.5 in eager "
            "(2 of 2 elements)",
            "gradient of input 0 (a) through output 1: values differ: at [0] 0.25 compiled, 0.75 in eager "
            "(2 of 2 elements)",
            function=two,
            inputs=[torch.ones(2)],
            test_mutation=False,
            front_end=Changed(call),
        )

    def test_metadata(self) -> None:
        """An output with another stride, dtype, requires_grad, is_leaf, type or shape is found."""

        class Other(torch.Tensor):  # type: ignore[misc]  # torch is untyped to mypy here
            pass

        for change, *texts in (
            (lambda o: o.t().contiguous().t(), "stride (1, 2) compiled, (2, 1) in eager"),
            (torch.Tensor.double, "dtype float64 compiled, float32 in eager"),
            (
                torch.detach,
                "requires_grad False compiled, True in eager",
                "is_leaf True compiled, False in eager",
            ),
            (lambda o: o.as_subclass(Other), f"type {Other.__qualname__} compiled, Tensor in eager"),
            (lambda o: o.unsqueeze(0), "shape (1, 2, 2) compiled, (2, 2) in eager"),
        ):
            for text in texts:
                self.assertDiffers(f"output 1: {text}", front_end=on_outputs(put(1, change)))

    def test_values(self) -> None:
        """The message names the output and its first element that differs beyond the dtype's tolerance."""

        def change(output: torch.Tensor) -> torch.Tensor:
            return output + torch.tensor([[0.0, 0.0], [1e-9, 1.0]])

        self.assertDiffers(
            "output 1: values differ: at [1, 1] 65.0 compiled, 64.0 in eager (1 of 4 elements)",
            front_end=on_outputs(put(1, change)),
        )
        self.assertDiffers(
            "output['loss']: values differ: 4.0 compiled, 2.0 in eager",
            function=products,
            inputs=[torch.ones(2), {"x": torch.ones(2)}],
            requires_grad=[True, False],
            test_mutation=False,
            front_end=Changed(
                lambda compiled, eager, arguments: {
                    name: value * 2 if name == "loss" else value
                    for name, value in compiled(*arguments).items()
                }
            ),
        )

    def test_tolerances(self) -> None:
        """``rtol`` and ``atol`` replace the dtype's tolerances, and have to be given together."""
        front_end = on_outputs(put(0, lambda output: output + 1e-3))
        given: dict[str, Any] = {
            "function": lambda a, b: (a * b,),
            "test_mutation": False,
            "front_end": front_end,
        }
        self.assertDiffers(**given)
        verify_aot(inputs=inputs(), rtol=0, atol=1e-2, **given)
        with self.assertRaisesRegex(UsageError, "go together"):
            verify_aot(writes, inputs(), rtol=0)

    def test_structure(self) -> None:
        """A missing output, and a number in the place of a tensor, are found."""
        message = self.assertDiffers(front_end=on_outputs(lambda outputs: outputs.pop()))
        self.assertIn("the outputs' structure: eager returned ['*', '*', '*'], compiled ['*', '*']", message)
        self.assertDiffers(
            "output 1: 3 compiled, a tensor in eager", front_end=on_outputs(put(1, lambda output: 3))
        )

    def test_swallowed_error(self) -> None:
        """A front end that runs eager code after an error of the compiled code is found."""

        def broken(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
            def run(*arguments: Any) -> Any:
                raise RuntimeError("no kernel")

            return run

        def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
            try:
                return compiled(*arguments)
            except RuntimeError:
                return eager(*arguments)

        with self.assertRaisesRegex(RuntimeError, "no kernel"):
            verify_aot(writes, inputs(), backend=broken)
        self.assertDiffers(
            "forward graph: it was compiled and never ran",
            "backward: no compiled one ran: the gradients come from elsewhere",
            backend=broken,
            front_end=Changed(call),
        )

    def test_every_difference_is_listed(self) -> None:
        """Of several differences each is listed."""

        def change(outputs: list[Any]) -> None:
            outputs[0] = outputs[0].clone()
            outputs[1] = outputs[1].detach()

        message = self.assertDiffers(front_end=on_outputs(change))
        for text in (
            "output 0: shares",
            "output 1: requires_grad",
            "gradient of input 1 (b) through output 1",
        ):
            self.assertIn(text, message)

    def test_later_runs(self) -> None:
        """A fault in a front end's second run is found."""

        class Twice(AotFunction):
            runs = 2

            def compile(self, function: Function, how: Compilation) -> Function:
                self.count = getattr(self, "count", 0) + 1
                compiled = super().compile(function, how)
                return (
                    compiled if self.count == 1 else lambda *arguments: [2 * o for o in compiled(*arguments)]
                )

        message = self.assertDiffers(front_end=Twice())
        self.assertIn("input mutations in the graph, run 2)", message)


if __name__ == "__main__":
    unittest.main()
