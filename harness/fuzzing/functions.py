"""``TensorFunction``: a function of tensors and what compiles it, as lines; its script compares with eager.

The script observes the function in eager and compiled: values, sizes, strides, who shares memory with whom,
who is whose object, the arguments after the call, and the gradient of each leaf through each output.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from harness.fuzzing.compilers import helpers, plainer_compilers
from harness.graphs.unrecorded_writes import unrecorded_writes

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

INDENT = "    "

_COMPARISON = '''\

def observed(function, inputs):
    """All that can be seen of a call: by name, in an order of importance."""
    leaves, arguments = inputs()
    outputs = function(*arguments)
    named = {f"argument {i}": each for i, each in enumerate(arguments)}
    named |= {f"output {i}": each for i, each in enumerate(outputs)}
    seen = {}
    for name, each in named.items():
        seen[f"{name}: values"] = each.detach().resolve_conj().clone()
        seen[f"{name}: shape"] = tuple(each.shape)
        seen[f"{name}: requires_grad"] = each.requires_grad
        seen[f"{name}: stride"] = tuple(n for n, size in zip(each.stride(), each.shape) if size > 1)
    for name, each in named.items():
        for other in named:
            if name.startswith("output") and other < name and each.numel() and named[other].numel():
                one, two = each.untyped_storage(), named[other].untyped_storage()
                seen[f"{name}: shares memory with {other}"] = one.data_ptr() == two.data_ptr()
                if other.startswith("argument"):
                    seen[f"{name}: is {other}"] = each is named[other]
    for name, each in named.items():
        if each.requires_grad:
            weights = torch.arange(1, each.numel() + 1).reshape(each.shape).to(each.dtype)
            with getattr(function, "backwards", contextlib.nullcontext)():
                (each * weights).sum().abs().backward(retain_graph=True)
            for i, leaf in enumerate(leaves):
                gradient = torch.zeros_like(leaf) if leaf.grad is None else leaf.grad
                seen[f"{name}: gradient of leaf {i}"] = gradient.detach().clone()
                leaf.grad = None
    return seen


torch._functorch.config.donated_buffer = False  # backward runs once for each output


def same(one, two):
    if not isinstance(one, torch.Tensor) or not isinstance(two, torch.Tensor):
        return type(one) is type(two) and one == two
    close = one.dtype == two.dtype and one.shape == two.shape
    return close and torch.allclose(one, two, rtol=1e-4, atol=1e-5, equal_nan=True)


def check(compiled, inputs):
    expected, got = observed(f, inputs), observed(compiled, inputs)
    for name in expected:
        assert same(expected[name], got[name]), f"{name}\\n{got[name]} compiled, {expected[name]} in eager"


'''
_CUSTOM = """\

class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


"""


@dataclass(frozen=True, slots=True)
class Inputs:
    """How leaves and arguments are made: lines, and expressions over what they make."""

    setup: tuple[str, ...]
    leaves: tuple[str, ...]
    arguments: tuple[str, ...]

    def source(self, name: str) -> str:
        """A function of this name that makes them."""
        lines = [f"def {name}():", *(INDENT + line for line in self.setup)]
        made = f"[{', '.join(self.leaves)}], [{', '.join(self.arguments)}]"
        return "\n".join([*lines, f"{INDENT}return {made}", ""])


@dataclass(frozen=True, slots=True)
class TensorFunction:
    """A function ``f`` of as many parameters as ``inputs`` has arguments: its statements and outputs.

    ``compiler`` is the expression that compiles it. ``again``: inputs of a second call of the same compiled
    function, whose sizes or whose sharing of memory may be others.
    """

    inputs: Inputs
    body: tuple[str, ...]
    outputs: tuple[str, ...]
    compiler: str
    again: Inputs | None = None

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters."""
        return tuple("abcd"[: len(self.inputs.arguments)])

    @property
    def function_source(self) -> str:
        """The source of ``f``."""
        lines = [f"def f({', '.join(self.parameters)}):", *(INDENT + line for line in self.body)]
        return "\n".join([*lines, f"{INDENT}return [{', '.join(self.outputs)}]", ""])

    def script(self) -> str:
        """The script that compares the compiled function with eager."""
        body = "\n".join(self.body)
        imports = "import contextlib\n\nimport torch\nimport torch._functorch.config\n"
        if "aot_" in self.compiler and "backend" not in self.compiler:
            imports += "from functorch.compile import aot_function, nop\n"
        if "checkpoint(" in body:
            imports += "from torch.utils.checkpoint import checkpoint\n"
        parts = [imports, _CUSTOM if "Doubled" in body else "\n\n", self.function_source, "\n\n"]
        parts += [self.inputs.source("inputs"), "\n"]
        if self.again is not None:
            parts += ["\n", self.again.source("others"), "\n"]
        parts += [_COMPARISON, helpers(self.compiler, ", ".join(self.parameters))]
        parts += [f"compiled = {self.compiler}\ncheck(compiled, inputs)\n"]
        if self.again is not None:
            parts.append("check(compiled, others)\n")
        return "".join(parts)

    def runs_in_eager(self) -> bool:
        """Whether eager can run the function, and backward through each output, without an error."""
        text = self.script().partition("compiled = ")[0]
        scope: dict[str, Any] = {"__name__": "eager"}
        try:
            exec(compile(text, "<eager>", "exec"), scope)
            scope["observed"](scope["f"], scope["inputs"])
            if self.again is not None:
                scope["observed"](scope["f"], scope["others"])
        except (RuntimeError, IndexError, NameError, TypeError, ValueError, AttributeError):
            return False
        return True

    def unrecorded_writes(self) -> tuple[str, ...]:
        """The parameters that the function writes to where autograd records nothing."""
        scope: dict[str, Any] = {}
        exec(compile(self.script().partition("compiled = ")[0], "<eager>", "exec"), scope)
        return unrecorded_writes(scope["f"], scope["inputs"]()[1], self.parameters)

    def smaller(self) -> Iterator[TensorFunction]:
        """Functions that are simpler by one change, valid or not."""
        if self.again is not None:
            yield replace(self, again=None)
            yield replace(self, inputs=self.again, again=None)
        for index in reversed(range(len(self.body))):
            yield replace(self, body=_without(self.body, index))
        for index in range(len(self.outputs) if len(self.outputs) > 1 else 0):
            yield replace(self, outputs=_without(self.outputs, index))
        for compiler in plainer_compilers(self.compiler):
            yield replace(self, compiler=compiler)
        for index, line in enumerate(self.body):
            for plainer in _plainer(line):
                yield replace(self, body=(*self.body[:index], plainer, *self.body[index + 1 :]))
        if self.again is None:
            yield from (replace(self, inputs=inputs) for inputs in _plainer_inputs(self.inputs))

    def to_json(self) -> dict[str, Any]:
        """Encodes the function as JSON-able values."""
        return asdict(self)


def from_json(value: Mapping[str, Any]) -> TensorFunction:
    """Restores a function from the values of ``to_json``."""
    again = value["again"]
    return TensorFunction(
        _inputs(value["inputs"]),
        tuple(value["body"]),
        tuple(value["outputs"]),
        value["compiler"],
        None if again is None else _inputs(again),
    )


def _inputs(value: Mapping[str, Any]) -> Inputs:
    return Inputs(tuple(value["setup"]), tuple(value["leaves"]), tuple(value["arguments"]))


def _without(items: tuple[str, ...], index: int) -> tuple[str, ...]:
    return items[:index] + items[index + 1 :]


def _plainer(line: str) -> Iterator[str]:
    """The statement without the context that it stands in."""
    if line.startswith("with "):
        yield line.partition(": ")[2]


def _plainer_inputs(inputs: Inputs) -> Iterator[Inputs]:
    """Inputs with a plainer argument, or with a leaf less that wants a gradient."""
    for index, argument in enumerate(inputs.arguments):
        base = argument[:2]
        if argument != base:
            arguments = (*inputs.arguments[:index], base, *inputs.arguments[index + 1 :])
            yield replace(inputs, arguments=arguments)
    for index, line in enumerate(inputs.setup):
        if ".requires_grad_()" in line:
            setup = (*inputs.setup[:index], line.replace(".requires_grad_()", ""), *inputs.setup[index + 1 :])
            yield replace(inputs, setup=setup, leaves=tuple(x for x in inputs.leaves if x != line[:2]))
