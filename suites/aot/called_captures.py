"""What expressions about compiled autograd use: captured graphs that are written by hand, and short captures.

A graph is a text, ``"a get inputs 0; c cos a; h pre hooks:5 a,c; g get h 0"``: nodes' names, kinds, inputs.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any
from unittest import mock

import torch
from torch import Tensor, fx
from torch._dynamo import compiled_autograd

from suites.aot.base import ramp
from suites.aot.called_graphs import compiler, placeholders, traced
from suites.aot.decisions import kind
from suites.aot.wrappers import text

_HOOKS = {
    "pre": "pre_hook",
    "tensor": "tensor_pre_hook",
    "post": "post_hook",
    "acc": "post_acc_grad_hook",
    "unpack": "unpack_hook",
    "other": "some_hook",
}


def _built(calls: str) -> Callable[[fx.Graph], Any]:
    """What builds a captured graph of a text; its last node is what it gives."""

    def build(made: fx.Graph) -> Any:
        nodes: dict[str, Any] = {each.name: each for each in placeholders(made)}
        last = None
        for call in calls.split("; "):
            name, what, *arguments = call.split()
            last = nodes[name] = _node(made, name, what, [_argument(each, made, nodes) for each in arguments])
        return [last]

    return build


def _argument(word: str, made: fx.Graph, nodes: dict[str, Any]) -> Any:
    """A node, a number, none (``-``), a list (``a,b``, ``[]``) or the hook of a number (``hooks:3``)."""
    if word.startswith("hooks:"):
        number = int(word.partition(":")[2])
        nodes[f"hook_{number}"] = made.create_node(
            "call_function", operator.getitem, (nodes["hooks"], number), name=f"hook_{number}"
        )
        return nodes[f"hook_{number}"]
    if word == "[]" or "," in word:
        return [nodes[each] for each in word.strip("[]").split(",") if each]
    if word == "-":
        return None
    return nodes[word] if word in nodes else int(word)


def _node(made: fx.Graph, name: str, what: str, args: list[Any]) -> fx.Node:
    if what in _HOOKS:
        target, named = compiled_autograd.call_hook, {"hook_type": _HOOKS[what]}
        return made.create_node("call_function", target, tuple(args), named, name)
    targets = {"get": operator.getitem, "grad": compiled_autograd.call_accumulate_grad}
    target = targets[what] if what in targets else getattr(torch.ops.aten, what).default
    return made.create_node("call_function", target, tuple(args), name=name)


def order(method: str, calls: str) -> str:
    """The nodes of a captured graph, without its inputs, in the order in which a method leaves them."""
    found = traced(_built(calls))
    getattr(found, method)()
    return " ".join(each.name for each in found.fx_tracer.graph.nodes if each.op == "call_function")


@contextlib.contextmanager
def _closed(found: compiled_autograd.AutogradCompilerInstance) -> Iterator[None]:
    """A region that leaves nothing of a capture behind when one fails in it."""
    try:
        yield
    except BaseException:
        found.close()
        found.compile_context.__exit__(None, None, None)
        raise


def captured(
    outputs: Callable[..., Any],
    inputs: Sequence[Any] = (5,),
    sizes: Sequence[int] = (),
    scalars: Sequence[Any] = (),
    checks: bool = False,
    gives: Any = None,
) -> str:
    """What a capture makes of inputs of those lengths, of sizes and of numbers, and what it runs later.

    ``outputs`` gets the instance and what stands for the three; what it gives is the graph's output.
    """
    tensors = [ramp(each) if isinstance(each, int) else each for each in inputs]
    origins = [[(number, name) for number, _ in enumerate(of)] for name, of in (("T", inputs), ("S", sizes))]
    origins.append([(number, "N") for number, _ in enumerate(scalars)])
    found = compiler()
    lines: list[str] = []
    with mock.patch.object(compiled_autograd, "COMPILE_COUNTER", itertools.count(7)), _closed(found):
        begun = found.begin_capture(list(tensors), list(sizes), list(scalars), origins, False, checks)
        lines.append(" ".join(f"{type(each).__name__}" for of in begun[1:] for each in of))
        run, graph = found.end_capture(outputs(found, *begun[1:]))
    nodes = (each for each in graph.graph.nodes if each.op != "placeholder")
    lines += [f"{type(graph).__name__} {begun[0]}", *map(_line, nodes)]

    def compiled(*given: Any) -> Any:
        lines.append(" | ".join(_given(each) for each in given))
        lines.append(f"in region {compiled_autograd.in_compiled_autograd_region}")
        return tensors if gives is None else gives

    result = run(compiled, tensors, list(sizes), list(scalars), [3], [])
    lines.append(f"{_given(result)} in region {compiled_autograd.in_compiled_autograd_region}")
    return "\n".join(lines)


def _line(node: fx.Node) -> str:
    trace = (node.stack_trace or "").strip().splitlines()[-1:]
    known = [name for name in ("tensor_meta", "example_value", "val") if name in node.meta]
    target = getattr(node.target, "__name__", node.target)
    named = f" {node.kwargs}" if node.kwargs else ""
    return f"{node.name}={target}{node.args}{named} {''.join(trace).strip()} {' '.join(known)}".rstrip()


def _given(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_given, value))}]"
    marks = getattr(value, "_dynamo_weak_dynamic_indices", "")
    return f"{kind(value)}{marks or ''}" if isinstance(value, Tensor) else text(value)


NAMES = {each.__name__: each for each in (order, captured)}
