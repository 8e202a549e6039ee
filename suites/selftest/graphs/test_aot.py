"""``verify_aot``: what is right passes, and each planted fault is named for what it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from harness import DynamoTestCase, UsageError
from harness.graphs import AotFunction, Compilation, Compilers, FrontEnd, UnbackedSize, nop, verify_aot

Function = Callable[..., Any]


# What is said of a write to the first argument of ``writes`` that did not happen.
LOST_WRITE = (
    "input 0 (a): values differ: at [0, 0] 1.0 compiled, 2.0 in eager (4 of 4 elements) after the call"
)


def writes(a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Writes to ``a``; returns a view of it, something new, and a view of that."""
    a.mul_(2)
    product = a * b
    return a.view(-1), product, product.t()


def products(weight: torch.Tensor, batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Two outputs by name."""
    return {"loss": (weight * batch["x"]).sum(), "twice": 2 * weight}


def inputs() -> list[torch.Tensor]:
    """Arguments for ``writes``."""
    return [torch.arange(1.0, 5).reshape(2, 2).clone(), torch.arange(5.0, 9).reshape(2, 2).clone()]


class Changed(FrontEnd):
    """``AotFunction`` whose compiled functions do something else as well.

    ``call(compiled, eager, arguments)`` is what happens in the place of a call.
    """

    name = "changed"

    def __init__(self, call: Callable[[Function, Function, tuple[Any, ...]], Any]) -> None:
        self.call = call

    def compile(self, function: Function, how: Compilation) -> Function:
        """Both functions are given to ``call``."""
        compiled = AotFunction().compile(function, how)
        return lambda *arguments: self.call(compiled, function, arguments)


def on_outputs(change: Callable[[list[Any]], None]) -> FrontEnd:
    """A front end after whose calls ``change`` has its way with the list of outputs."""

    def call(compiled: Function, eager: Function, arguments: tuple[Any, ...]) -> Any:
        outputs = list(compiled(*arguments))
        change(outputs)
        return outputs

    return Changed(call)


def on_gradients(change: Callable[[list[Any]], None]) -> Compilers:
    """A backend after whose backwards ``change`` has its way with the list of gradients."""

    def backward(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
        def run(*arguments: Any) -> list[Any]:
            gradients = list(graph(*arguments))
            change(gradients)
            return gradients

        return run

    return Compilers("faulty", nop, backward)


def put(index: int, change: Callable[[Any], Any]) -> Callable[[list[Any]], None]:
    """Replaces one item of a list."""

    def replace(values: list[Any]) -> None:
        values[index] = change(values[index])

    return replace


class VerifyTestCase(DynamoTestCase):
    """Asks for a difference by its text."""

    def assertDiffers(self, *texts: str, function: Function = writes, **options: Any) -> str:
        """Verification fails, with these texts each on a line of its own; returns the whole message."""
        given = {"inputs": inputs(), "requires_grad": True, "test_mutation": True, **options}
        with self.assertRaises(AssertionError) as caught:
            verify_aot(function, **given)
        message = str(caught.exception)
        for text in texts:
            self.assertIn(f"  {text}", message.split("\n"))
        return message


class RightTest(VerifyTestCase):
    """What is right passes, and is reported."""

    def test_graphs(self) -> None:
        """Forward, backward and joint graph of the last round, as modules and as text."""
        result = verify_aot(writes, inputs(), requires_grad=True, test_mutation=True)
        self.assertExpectedInline(
            result.forward_text,
            """\
forward(primals_1, primals_2)
  clone = aten.clone.default(primals_1)
  mul = aten.mul.Tensor(clone, 2)
  mul_1 = aten.mul.Tensor(mul, primals_2)
  t = aten.t.default(mul_1)
  view_1 = aten.view.default(mul, [-1])
  return (mul, view_1, mul_1, t, primals_2, mul)""",
        )
        self.assertExpectedInline(
            result.backward_text,
            """\
backward(primals_2, mul, tangents_1, tangents_2)
  mul_2 = aten.mul.Tensor(tangents_2, mul)
  mul_3 = aten.mul.Tensor(tangents_2, primals_2)
  add = aten.add.Tensor(tangents_1, mul_3)
  mul_4 = aten.mul.Tensor(add, 2)
  return (mul_4, mul_2)""",
        )
        self.assertTrue(result.joint_text.startswith("joint(primals_1, primals_2, tangents_1"))
        for module in (result.forward, result.backward, result.joint):
            self.assertIsInstance(module, torch.fx.GraphModule)

    def test_inference(self) -> None:
        """Without a backward there is one graph, also under ``forward``."""
        result = verify_aot(writes, inputs(), keep_input_mutations=True)
        self.assertTrue(result.forward_text.startswith("inference("))
        self.assertIn("aten.copy_.default(arg0_1, mul)", result.forward_text)
        self.assertIsNone(result.backward)
        self.assertEqual(result.backward_text, "")

    def test_inputs_are_left_alone(self) -> None:
        """Each run has copies of its own."""
        given = inputs()
        verify_aot(writes, given)
        self.assertEqual(given, inputs())

    def test_backends(self) -> None:
        """By name, one compiler, a pair."""
        seen: list[str] = []

        def forward(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
            seen.append("forward")
            return nop(graph, example)

        def backward(graph: torch.fx.GraphModule, example: Sequence[Any]) -> Function:
            seen.append("backward")
            return nop(graph, example)

        for backend in ("nop", "aot_eager", nop, (forward, backward)):
            for dynamic in (False, True):
                verify_aot(
                    writes,
                    inputs(),
                    requires_grad=True,
                    test_mutation=True,
                    backend=backend,
                    dynamic=dynamic,
                    keep_input_mutations=True,
                )
        self.assertEqual(seen, ["forward", "backward"] * 2)

    def test_inductor(self) -> None:
        """The backend that makes code."""
        result = verify_aot(writes, inputs(), requires_grad=True, backend="inductor", test_mutation=True)
        self.assertEqual(result.returned[1].shape, (2, 2))

    def test_dynamic(self) -> None:
        """Sizes are symbols."""
        result = verify_aot(lambda a: a.expand(a.shape[0], a.shape[0]) + 1, [torch.ones(3)], dynamic=True)
        self.assertIn("aten.sym_size.int(arg", result.forward_text)

    def test_containers_and_modules(self) -> None:
        """Dictionaries in and out; a module's own parameters and buffers."""
        verify_aot(products, [torch.ones(2, requires_grad=True), {"x": torch.ones(2)}])
        module = torch.nn.BatchNorm1d(3)
        verify_aot(module, [torch.randn(4, 3)])
        self.assertEqual(module.num_batches_tracked, 0)

    def test_callable_inputs(self) -> None:
        """Made anew for each side, with the leaves that gradients are read off."""
        made = []

        def make() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            base = torch.ones(4, requires_grad=True)
            made.append(base)
            x = base * 2
            return [base], [x.view(2, 2), x.view(2, 2)]

        def sums(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            a.mul_(2)
            return a + b

        verify_aot(sums, make, test_mutation=True, keep_input_mutations=True)
        self.assertEqual(len(made), 2)

    def test_errors_of_both(self) -> None:
        """A function that raises in eager has to raise compiled."""

        def adds(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
            return a + b

        unlike = [torch.ones(2), torch.ones(3)]
        verify_aot(adds, unlike, raises=RuntimeError)
        with self.assertRaisesRegex(RuntimeError, "must match the size") as caught:
            verify_aot(adds, unlike)
        said = "\n".join([*caught.exception.args, *getattr(caught.exception, "__notes__", ())])
        self.assertIn("This is the function itself, in eager: nothing was compiled yet.", said)
        with self.assertRaisesRegex(AssertionError, "adds did not raise RuntimeError compiled"):
            verify_aot(
                adds, unlike, raises=RuntimeError, front_end=Changed(lambda compiled, eager, args: args[0])
            )
        with self.assertRaisesRegex(AssertionError, "writes did not raise RuntimeError in eager"):
            verify_aot(writes, inputs(), raises=RuntimeError)


class FaultTest(VerifyTestCase):
    """Each fault is found, and the message says where."""

    def test_eager_returned(self) -> None:
        """What ran is not compiled code, though it is all the same."""
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
        """Of outputs that alias nothing any more."""
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
        """In the graph and after it."""

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
        """Of an input's sizes and strides."""

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
        """Between an output and an input, and between outputs; writing shows it as well."""
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
        """Two outputs that have nothing to do with each other share memory."""
        self.assertDiffers(
            "output 0: shares memory with output 1 compiled, nothing in eager",
            "output 1: shares memory with output 0 compiled, nothing in eager",
            function=lambda a, b: (a * 2, a * 2),
            front_end=on_outputs(lambda outputs: outputs.__setitem__(1, outputs[0].detach())),
            requires_grad=False,
        )

    def test_returned_input(self) -> None:
        """An output that is the input itself."""
        self.assertDiffers(
            "output 0: is the object of nothing compiled, input 0 (a) in eager",
            function=lambda a, b: (a, a * b),
            front_end=on_outputs(put(0, lambda a: a.view_as(a))),
            requires_grad=False,
        )

    def test_gradients(self) -> None:
        """Doubled, dropped, exchanged, not zero, of another dtype."""

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

    def test_gradient_of_one_output(self) -> None:
        """What reaches a leaf through one output is not confused with what does through another."""

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
        """Stride, dtype, requires_grad, is_leaf, type, shape."""

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
        """The first element that differs, in the dtype's tolerance; by the output's own name."""

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
        """As given."""
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
        """An output too few, and a number in the place of a tensor."""
        message = self.assertDiffers(front_end=on_outputs(lambda outputs: outputs.pop()))
        self.assertIn("the outputs' structure: eager returned ['*', '*', '*'], compiled ['*', '*']", message)
        self.assertDiffers(
            "output 1: 3 compiled, a tensor in eager", front_end=on_outputs(put(1, lambda output: 3))
        )

    def test_swallowed_error(self) -> None:
        """Something goes wrong in the compiled code, and eager steps in."""

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
        """One does not hide another."""

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
        """A front end's second run is compared as the first."""

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


class UsageTest(VerifyTestCase):
    """What cannot be verified is refused in one line."""

    def refused(self, text: str, *arguments: Any, **options: Any) -> None:
        """A UsageError with ``text``."""
        with self.assertRaisesRegex(UsageError, text):
            verify_aot(*arguments, **options)

    def test_inputs(self) -> None:
        """Neither a list nor a callable; an integer that shall require grad; too few flags."""
        self.refused("inputs is a Tensor: give a list", writes, torch.ones(2))
        self.refused(
            "tensor 1 of the inputs is int64 and cannot require grad",
            lambda a, index: a[index],
            [torch.ones(3), torch.tensor([1])],
            requires_grad=True,
        )
        self.refused("has 1 values for 2 tensors", writes, inputs(), requires_grad=[True])
        self.refused("has to return a pair", writes, inputs)
        self.refused("let the callable make them so", writes, inputs, requires_grad=True)
        self.refused("function is a int", 3, inputs())

    def test_subclasses(self) -> None:
        """A function for a list, a mode for a callable."""
        self.refused("has to be a function", writes, inputs(), subclasses=torch.no_grad)
        self.refused("has to be a context manager class", writes, inputs, subclasses=torch.clone)

    def test_outputs(self) -> None:
        """A function that returns what no graph can."""
        self.refused(
            r"output\['kind'\] is a object: a function that is compiled ahead of time returns tensors",
            lambda a: {"kind": object()},
            [torch.ones(2)],
        )

    def test_unbacked_sizes(self) -> None:
        """A size, or a number, that depends on data: torch's own error is the cause."""
        functions = (lambda a: a * 2 if a.sum() > 3 else a, lambda a: a[: int(a.sum())])
        for function, dynamic in (
            *((f, d) for f in functions for d in (False, True)),
            (torch.nonzero, False),
        ):
            with self.assertRaisesRegex(UnbackedSize, "only known from data") as caught:
                verify_aot(function, [torch.ones(4)], dynamic=dynamic)
            self.assertIsNotNone(caught.exception.__cause__)
        # With symbolic sizes a graph may have one that is none of the inputs'.
        result = verify_aot(torch.nonzero, [torch.ones(4)], dynamic=True)
        self.assertEqual(result.returned.shape, (4, 1))

    def test_backends(self) -> None:
        """Unknown names, what is no compiler, and a compiler that returns nothing."""
        self.refused(
            "backend='fast' is not known here: give one of 'nop', 'aot_eager'",
            writes,
            inputs(),
            backend="fast",
        )
        self.refused("backend=3: give a name", writes, inputs(), backend=3)
        self.refused(
            "inference compiler returned a NoneType", writes, inputs(), backend=lambda graph, example: None
        )
