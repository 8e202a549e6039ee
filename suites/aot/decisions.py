"""What AOTAutograd decides about a program on its way to graphs, and what calls do to results and inputs.

Owns what is noted of both.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any
from unittest import mock

import torch
from functorch.compile import aot_function, default_partition, make_boxed_func
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._functorch import config
from torch._functorch._aot_autograd import collect_metadata_analysis, graph_compile, runtime_wrappers
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils._pytree import tree_leaves

from suites.aot.ways import PROGRAMS, WAYS, Way
from suites.aot.wrappers import REFUSALS, text

#: Functions whose results are noted: where they are looked up.
NOTED: tuple[tuple[Any, str], ...] = (
    (graph_compile, "_categorize_saved_tensors_for_backward"),
    (graph_compile, "_compute_indices_of_inps_to_detach"),
    (graph_compile, "collect_fw_donated_buffer_idxs"),
    (graph_compile, "collect_bw_donated_buffer_idxs"),
    (graph_compile, "compute_inner_mutated_inp_indices_from_subclass_meta"),
    (graph_compile, "contain_metadata_mutation_ops"),
    (runtime_wrappers, "compute_overlapping_inputs"),
    (runtime_wrappers, "create_synthetic_base_metadata"),
    (runtime_wrappers, "remove_dupe_metadata"),
    (runtime_wrappers, "merge_view_inputs"),
    (collect_metadata_analysis, "coerce_tangent_and_suggest_memory_format"),
)
_NOTHING = ("[]", "False", "NoneType")
#: What is noted of the function of autograd.
_SPEC = (
    "num_symints_saved_for_bw",
    "backward_state_indices",
    "disable_amp",
    "indices_of_inps_to_detach",
    "maybe_subclass_meta",
)


def lines_of(program: str, way: str) -> list[str]:
    """What is noted of a program that is compiled and called twice in a way, each time with a backward.

    A second call that is like the first one after compilation is left out.
    """
    how = WAYS[way]
    lines: list[str] = []
    torch._dynamo.reset()
    torch.manual_seed(0)
    function = compiled(PROGRAMS[program], how, lines)
    with config.patch(**how.settings), noted(lines):
        try:
            first = called(function, how, lines)
            lines.extend(first)
            second = called(function, how, lines)
            lines.extend(["again", *second] if second != first else [])
        except REFUSALS as error:
            words = str(error).strip().partition(" (<class")[0].partition("\n")[0]
            lines.append(f"{type(error).__name__}: {words[:70]}".rstrip())
        finally:
            torch.set_grad_enabled(True)
    return lines


def compiled(program: Callable[..., Any], how: Way, lines: list[str]) -> Callable[..., Any]:
    """The program, whose graphs are noted when it is called."""
    options = {
        "fw_compiler": functools.partial(_compiled, lines, "forward"),
        "bw_compiler": functools.partial(_compiled, lines, "backward"),
        "inference_compiler": functools.partial(_compiled, lines, "inference"),
        "partition_fn": default_partition,
        "keep_inference_input_mutations": True,
        **how.options,
    }
    if not how.by_dynamo:
        return aot_function(program, **options)
    dynamic = options.pop("dynamic", False)
    return torch.compile(program, backend=aot_autograd(**options), dynamic=dynamic)


def called(function: Callable[..., Any], how: Way, lines: list[str]) -> list[str]:
    """What a call and its backward leave of inputs and results."""
    inputs = how.make()
    with how.around():
        results = tree_leaves(function(*inputs))
    found = list(after(results, inputs))
    torch.set_grad_enabled(True)
    went_back(results)
    found.extend(gradients(inputs))
    return found


#: What nodes know of where they come from.
_KNOWN = (
    "fwd_nn_module_stack",
    "fwd_source_fn_stack",
    "nn_module_stack",
    "seq_nr",
    "source_fn_stack",
    "stack_trace",
)


def _compiled(lines: list[str], name: str, graph: Any, inputs: Any) -> Any:
    lines.append(f"{name} gets {', '.join(map(kind, inputs))}")
    tags = [f"{node.name}:{words}" for node in graph.graph.nodes if (words := _tags(node))]
    lines.append(f"  {' '.join(tags)}")
    known = Counter(name for node in graph.graph.nodes for name in node.meta if name in _KNOWN)
    lines.append(f"  {' '.join(f'{name}:{count}' for name, count in sorted(known.items()))}")
    return make_boxed_func(graph.forward)


def _tags(node: Any) -> str:
    """What partitioners go by, and what an input or output is for."""
    words = [str(node.meta[name]) for name in ("partitioner_tag", "recompute") if node.meta.get(name)]
    if node.op == "placeholder" and "desc" in node.meta:
        words.append(node.meta["desc"].expr())
    if node.op == "output" and "desc" in node.meta:
        words.extend(each.expr() for each in node.meta["desc"] if each is not None)
    return "+".join(words).replace(" ", "")


@contextlib.contextmanager
def noted(lines: list[str]) -> Iterator[None]:
    """A region in which results of torch's functions are written down."""

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            found = function(*arguments, **named)
            said = of_function(found)
            lines.extend([f"{name}: {said}"] if said not in _NOTHING else [])
            return found

        return call

    finish = graph_compile.AOTDispatchAutograd.post_compile

    def finishing(spec: Any) -> Any:
        said = (f"{name}={text(value)}" for name in _SPEC if (value := getattr(spec, name)))
        lines.append(f"function of autograd: {' '.join(said)}".rstrip(": "))
        traces = spec.fw_metadata.tangent_source_stack_traces or ()
        lines.extend(f"tangent of {last_line(each)}" for each in traces if each is not None)
        return finish(spec)

    with contextlib.ExitStack() as stack:
        for owner, name in NOTED:
            patched = mock.patch.object(owner, name, noting(name, getattr(owner, name)))
            stack.enter_context(patched)
        stack.enter_context(
            mock.patch.object(graph_compile.AOTDispatchAutograd, "post_compile", staticmethod(finishing))
        )
        yield


def of_function(value: Any) -> str:
    """What a function has given, where it is a tensor with its strides."""
    if isinstance(value, tuple | list):
        return f"[{', '.join(map(of_function, value))}]"
    return kind(value) if isinstance(value, Tensor) else text(value)


def last_line(trace: str) -> str:
    """Where a stack ends: the source there, without what Python marks in it."""
    return next(line.strip() for line in reversed(trace.splitlines()) if line.strip("^~ "))


def kind(value: Any) -> str:
    """Type, sizes and strides of a tensor; a symbol is named alike wherever it comes from."""
    if not isinstance(value, Tensor):
        return type(value).__name__ if isinstance(value, torch.SymInt) else str(value)
    numbers = [str(tuple(map(str, each))).replace("'", "") for each in (value.shape, value.stride())]
    return f"{type(value).__name__}{numbers[0]}{numbers[1]}"


def after(results: list[Any], inputs: Iterable[Tensor]) -> Iterator[str]:
    """How results lie beside inputs and beside each other, and what was done to the inputs."""
    known: dict[int, str] = {}
    for number, each in enumerate(inputs):
        known[id(each)] = f"input {number}"
        yield f"input {number} {_beside(each, known)}"
    for number, each in enumerate(results):
        if not isinstance(each, Tensor):
            yield f"result {number} {each}"
            continue
        yield f"result {number} {known.get(id(each), '')} {_beside(each, known)}".replace("  ", " ")
        known.setdefault(id(each), f"result {number}")


def _beside(value: Tensor, known: dict[int, str]) -> str:
    words = [kind(value), str(value.dtype).removeprefix("torch.")]
    words += [name for name in ("requires_grad", "is_leaf") if getattr(value, name)]
    if value.grad_fn is not None:
        words.append(value.grad_fn.name())
    if value._is_view() and value._base is not None:
        words.append(f"of {known.get(id(value._base), 'another')}")
    if not value.is_inference():
        words.append(f"version {value._version}")
    if not isinstance(value, TwoTensor):
        words.append(f"at {value.storage_offset()} of {value.untyped_storage().nbytes()}")
    return " ".join(words)


def went_back(results: list[Any]) -> None:
    """Start a backward with gradients that lie otherwise than the results."""
    wanted = [each for each in results if isinstance(each, Tensor) and each.requires_grad]
    slopes = [torch.ones_like(each).mul(number) for number, each in enumerate(wanted, 2)]
    if wanted:
        torch.autograd.backward(wanted, [_turned(each) for each in slopes])


def _turned(value: Tensor) -> Tensor:
    return value.t().contiguous().t() if value.dim() == 2 else value


def gradients(inputs: Iterable[Tensor]) -> Iterator[str]:
    """The gradients of inputs that are leaves."""
    for number, each in enumerate(inputs):
        if each.is_leaf and each.grad is not None:
            plain = each.grad.a if isinstance(each.grad, TwoTensor) else each.grad
            yield f"gradient {number} {kind(each.grad)} {plain.double().sum().item():.4g}"
