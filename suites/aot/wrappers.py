"""What AOTAutograd writes around a graph: its record of inputs and results, and the source of its wrappers.

Owns the programs for this, the inputs that they get, and how a record is written down.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any
from unittest import mock

import torch
from functorch.compile import aot_function, make_boxed_func
from torch import Tensor, nn
from torch._functorch._aot_autograd import runtime_wrappers
from torch._functorch.partitioners import min_cut_rematerialization_partition
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_leaves

from suites.aot import programs_of_two_matrices

REFUSALS = (
    AssertionError,
    AttributeError,
    IndexError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
)


def transposed_and_written(x: Tensor, y: Tensor) -> Any:
    y.t_()
    y.add_(1)
    return x @ y, y


def written_after_a_view(x: Tensor, y: Tensor) -> Any:
    part = y[1:3]
    y.mul_(2)
    return part * x[1:3], part, x.view(16)[:3]


def two_views_of_a_result(x: Tensor, y: Tensor) -> Any:
    z = x * y
    return z.t(), z.view(16), z


def views_of_hidden_results(x: Tensor, y: Tensor) -> Any:
    z, w = x * y, x.sin()
    return z.t(), w[0], z.view(16), w[:, 1]


def set_to_another(x: Tensor, y: Tensor) -> Any:
    with torch.no_grad():
        y.set_(x.detach().clone())
    return x * 2


def grad_mode_is_left(x: Tensor, y: Tensor) -> Any:
    torch.set_grad_enabled(False)
    return x * y


def in_a_list(x: Tensor, y: Tensor) -> Any:
    return {"a": [x * 2, 5], "b": (y, None)}


class Twice(torch.autograd.Function):
    """A function of the user's, whose backward looks at a stashed tensor and at a saved one."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
        ctx.save_for_backward(y)
        ctx.stashed = x.cos()
        return x * y

    @staticmethod
    def backward(ctx: Any, slope: Tensor) -> Any:
        (y,) = ctx.saved_tensors
        return slope * y * ctx.stashed, None


def own_function(x: Tensor, y: Tensor) -> Any:
    return Twice.apply(x, y)


def unsafe_view(x: Tensor, y: Tensor) -> Any:
    return torch.ops.aten._unsafe_view(x @ y, [16])


def number_of_sizes(x: Tensor, y: Tensor) -> Any:
    return x.size(0) * 2, x.reshape(-1) * y.numel()


def written_in_the_backward(x: Tensor, y: Tensor) -> Any:
    class Writes(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> Tensor:
            ctx.save_for_backward(y)
            return x.clone()

        @staticmethod
        def backward(ctx: Any, slope: Tensor) -> Any:
            (y,) = ctx.saved_tensors
            with torch.no_grad():
                y.add_(1)
            return slope * 2, None

    return Writes.apply(x, y.detach())


def dropped(x: Tensor, y: Tensor) -> Any:
    return nn.functional.dropout(x, 0.5) + y


OWN = (
    transposed_and_written,
    written_after_a_view,
    two_views_of_a_result,
    views_of_hidden_results,
    set_to_another,
    grad_mode_is_left,
    in_a_list,
    own_function,
    unsafe_view,
    number_of_sizes,
    written_in_the_backward,
    dropped,
)
PROGRAMS = {each.__name__: each for each in (*programs_of_two_matrices.PROGRAMS, *OWN)}


def _plain() -> tuple[Tensor, Tensor]:
    return torch.rand(4, 4, requires_grad=True), torch.rand(4, 4)


def _pair() -> Tensor:
    return TwoTensor(torch.rand(4, 4), torch.rand(4, 4))


def _views() -> tuple[Tensor, Tensor]:
    base = torch.rand(8, 4, requires_grad=True) * 2
    return base[:4], base[4:]


def _same() -> tuple[Tensor, Tensor]:
    x = torch.rand(4, 4, requires_grad=True) * 2
    return x, x


def _both() -> tuple[Tensor, Tensor]:
    return torch.rand(4, 4, requires_grad=True) * 2, torch.rand(4, 4, requires_grad=True) * 2


#: The inputs: by name, what makes them, and the options of the compiler.
INPUTS: dict[str, tuple[Callable[[], tuple[Tensor, Tensor]], dict[str, Any]]] = {
    "plain": (_plain, {}),
    "plain, written outside": (_plain, {"keep_inference_input_mutations": False}),
    "no gradient": (lambda: (torch.rand(4, 4), torch.rand(4, 4)), {}),
    "both want gradients": (_both, {}),
    "sizes as symbols": (_plain, {"dynamic": True}),
    "a pair and a tensor": (lambda: (_pair().requires_grad_(), torch.rand(4, 4)), {}),
    "pairs": (lambda: (_pair().requires_grad_(), _pair()), {}),
    "a pair of pairs": (lambda: (TwoTensor(_pair(), _pair()).requires_grad_(), torch.rand(4, 4)), {}),
    "pairs, sizes as symbols": (lambda: (_pair().requires_grad_(), _pair()), {"dynamic": True}),
    "two views of one": (_views, {}),
    "the same twice": (_same, {}),
}


#: Of each program so many kinds of inputs beside the first are tried, others of each.
TURNS = 2


def chosen() -> Iterator[tuple[str, str]]:
    """Programs with inputs: each with plain ones, and with some of the others in turn."""
    first, *others = INPUTS
    for number, program in enumerate(PROGRAMS):
        yield program, first
        for turn in range(TURNS):
            yield program, others[(number * TURNS + turn) % len(others)]


def lines_of(program: str, inputs: str, sources: dict[str, list[str]]) -> list[str]:
    """What is written for a program by some inputs; sources of wrappers are put beside, by a short name."""
    make, options = INPUTS[inputs]
    torch.manual_seed(0)
    function = aot_function(
        PROGRAMS[program],
        fw_compiler=_compiled,
        bw_compiler=_compiled,
        inference_compiler=_compiled,
        partition_fn=min_cut_rematerialization_partition,
        **{"keep_inference_input_mutations": True, **options},
    )
    with written(sources) as lines:
        try:
            results = [each for each in tree_leaves(function(*make())) if isinstance(each, Tensor)]
            wanted = [each.sum() for each in results if each.requires_grad]
            if wanted:
                sum(wanted[1:], wanted[0]).sum().backward()
        except REFUSALS as error:
            lines.append(f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:70]}".rstrip())
        finally:
            torch.set_grad_enabled(True)
    return lines


def _compiled(graph: Any, _: Any) -> Any:
    return make_boxed_func(graph.forward)


@contextlib.contextmanager
def written(sources: dict[str, list[str]]) -> Iterator[list[str]]:
    """A region that writes down records and the names of sources of wrappers."""
    from torch._functorch._aot_autograd import subclass_codegen  # torch 2.11 has none

    lines: list[str] = []
    compile_source = subclass_codegen._compile_and_exec_source
    finish = runtime_wrappers.RuntimeWrapper.post_compile

    def compiling(source, names, function, artifact, **more):
        words = [line.rstrip() for line in source.strip().splitlines()]
        key = f"{artifact} {hashlib.blake2b(source.strip().encode(), digest_size=3).hexdigest()}"
        sources[key] = words
        constants = (
            f"{name}={text(value)}"
            for name, value in sorted(names.items())
            if isinstance(value, int | str | tuple | list) and name not in SAID_BY_RECORDS
        )
        lines.append(" ".join(("wrapper", key, *constants)))
        return compile_source(source, names, function, artifact, **more)

    def finishing(self, compiled, settings, *, runtime_metadata):
        lines.extend(record(runtime_metadata))
        return finish(self, compiled, settings, runtime_metadata=runtime_metadata)

    with (
        mock.patch.object(subclass_codegen, "_compile_and_exec_source", compiling),
        mock.patch.object(runtime_wrappers.RuntimeWrapper, "post_compile", finishing),
    ):
        yield lines


#: Names of sources that stand for parts of records.
SAID_BY_RECORDS = ("_stack_traces_", "_tangent_descs_", "_tangent_metas_")
#: Fields of a record that say how it came about.
UNSAID = ("compile_id_str", "tangent_source_stack_traces", "traced_tangents_descs")


def record(of: Any) -> Iterator[str]:
    """The fields of a record that say something, one a line; a list of records has a line for each."""
    fields = {name: value for name, value in sorted(vars(of).items()) if name not in UNSAID}
    numbers = (f"{name}={value}" for name, value in fields.items() if type(value) is int and value)
    yield " ".join(("numbers", *numbers))
    for name, value in fields.items():
        if isinstance(value, list) and value and dataclasses.is_dataclass(value[0]):
            yield from (f"{name} {number}: {text(each)}" for number, each in enumerate(value))
        elif _says_something(value) and type(value) is not int:
            yield f"{name}: {text(value)}"


def _says_something(value: Any) -> bool:
    return not (
        value is None or value is False or (isinstance(value, list | tuple | dict | set) and not value)
    )


def text(value: Any) -> str:
    """A value in one line, without what is false, none or empty in a record."""
    if isinstance(value, Tensor):
        return f"{type(value).__name__}{tuple(value.shape)}"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, Enum):
        return value.name
    if dataclasses.is_dataclass(value):
        fields = ((each.name, getattr(value, each.name)) for each in dataclasses.fields(value))
        said = (name if of is True else f"{name}={text(of)}" for name, of in fields if _says_something(of))
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{text(name)}: {text(of)}" for name, of in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return f"{{{', '.join(sorted(map(text, value)))}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(text, value))}]"
    if isinstance(value, int | float | str | torch.dtype | torch.memory_format):
        return str(value)
    return type(value).__name__
