"""Graphs that lose a write, a gradient, an alias, between tracing and the compiler."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from suites.aot.faults.planted import changing
from suites.planting import Mutant

COMPILE = "torch._functorch._aot_autograd.graph_compile"
JOINT = f"{COMPILE}:aot_dispatch_autograd_graph"
BASE = f"{COMPILE}:aot_dispatch_base_graph"

Node = torch.fx.Node
aten = torch.ops.aten


def _output(result: Any) -> Node:
    (node,) = result[0].graph.find_nodes(op="output")
    return node


def _returned(result: Any) -> list[Any]:
    return list(_output(result).args[0])


def _put(result: Any, index: int, make: Callable[[torch.fx.Graph, Node], Node]) -> Any:
    """``result`` with another node as the graph's output ``index``, of the same metadata."""
    graph, output, returned = result[0].graph, _output(result), _returned(result)
    with graph.inserting_before(output):
        node = make(graph, returned[index])
    node.meta = dict(returned[index].meta)
    returned[index] = node
    output.args = (type(output.args[0])(returned),)
    result[0].recompile()
    return result


def _calls(function: Any, *extra: Any) -> Callable[[torch.fx.Graph, Node], Node]:
    return lambda graph, node: graph.call_function(function, (node, *extra))


# -- writes


def _writes(result: Any, *_: Any, **__: Any) -> list[Node]:
    """Writes to the graph's inputs."""
    nodes = result[0].graph.find_nodes(op="call_function", target=aten.copy_.default)
    return [node for node in nodes if node.args[0].op == "placeholder"]


def _without_writes(result: Any, writes: list[Node]) -> Any:
    for node in writes:
        node.replace_all_uses_with(node.args[1])
        result[0].graph.erase_node(node)
    result[0].recompile()
    return result


# -- gradients


def _gradients(result: Any, *_: Any, **__: Any) -> list[int]:
    """Which outputs of a joint graph are gradients that are not None."""
    descriptions = _output(result).meta["desc"]
    return [
        index
        for index, (node, description) in enumerate(zip(_returned(result), descriptions, strict=True))
        if type(description).__name__ == "GradAOTOutput" and isinstance(node, Node)
    ]


def _lose_last(result: Any, gradients: list[int]) -> Any:
    return _put(result, gradients[-1], _calls(aten.zeros_like.default))


def _double_first(result: Any, gradients: list[int]) -> Any:
    return _put(result, gradients[0], _calls(aten.mul.Tensor, 2))


def _several_alike(result: Any, *_: Any, **__: Any) -> list[tuple[int, int]]:
    """Pairs of gradients of one size and dtype that are not the same node."""
    gradients, returned = _gradients(result), _returned(result)
    return [
        (one, other)
        for one in gradients
        for other in gradients
        if one < other
        and returned[one] is not returned[other]
        and _kind(returned[one]) == _kind(returned[other])
    ]


def _kind(node: Node) -> Any:
    value = node.meta.get("val")
    return (value.shape, value.dtype) if isinstance(value, torch.Tensor) else None


def _exchange(result: Any, pairs: list[tuple[int, int]]) -> Any:
    one, other = pairs[0]
    output, returned = _output(result), _returned(result)
    returned[one], returned[other] = returned[other], returned[one]
    output.args = (type(output.args[0])(returned),)
    result[0].recompile()
    return result


# -- aliases


def _is_view(node: Any) -> bool:
    return (
        isinstance(node, Node)
        and isinstance(node.target, torch._ops.OpOverload)
        and any(info.alias_info is not None for info in node.target._schema.returns)
        and not node.target._schema.is_mutable
    )


def _root(node: Any) -> Any:
    while _is_view(node):
        node = node.args[0]
    return node


def _aliases(result: Any, *_: Any, fw_metadata: Any, **__: Any) -> list[int]:
    """Outputs of an inference graph that share memory with another because the graph says so.

    What aliases an input is made anew of it after the graph.
    """
    returned = _returned(result)
    first = fw_metadata.num_mutated_inp_runtime_indices
    own = [
        first + index
        for index, info in enumerate(fw_metadata.output_info)
        if info.output_type.name == "non_alias"
    ]
    return [index for index in own if index < len(returned) and _aliases_one(returned, index, own)]


def _aliases_one(returned: list[Any], index: int, own: list[int]) -> bool:
    node = returned[index]
    others = [returned[other] for other in own if other != index and other < len(returned)]
    return _is_view(node) and any(_root(other) is _root(node) for other in others)


def _copied(result: Any, aliases: list[int]) -> Any:
    return _put(result, aliases[-1], _calls(aten.clone.default))


# -- values


def _sums(result: Any, *_: Any, **__: Any) -> list[Node]:
    """Additions of two tensors, of which one may be left out."""
    nodes = result[0].graph.find_nodes(op="call_function", target=aten.add.Tensor)
    return [
        node
        for node in nodes
        if isinstance(node.args[1], Node) and _kind(node) is not None and _kind(node) == _kind(node.args[0])
    ]


def _drop_second(result: Any, sums: list[Node]) -> Any:
    sums[-1].target, sums[-1].args = aten.clone.default, sums[-1].args[:1]
    sums[-1].kwargs = {}
    result[0].recompile()
    return result


GRAPHS: tuple[Mutant, ...] = (
    changing(
        "write_in_graph_is_lost",
        "a graph does not write to its inputs",
        (JOINT, BASE),
        _writes,
        _without_writes,
    ),
    changing("gradient_is_lost", "the last gradient is zero", (JOINT,), _gradients, _lose_last),
    changing("gradient_is_doubled", "the first gradient counts twice", (JOINT,), _gradients, _double_first),
    changing(
        "gradients_are_exchanged",
        "two inputs of one size get each other's gradients",
        (JOINT,),
        _several_alike,
        _exchange,
    ),
    changing(
        "view_in_graph_is_a_copy",
        "an output of an inference graph no longer aliases another",
        (BASE,),
        _aliases,
        _copied,
    ),
    changing("summand_is_lost", "a sum forgets its second part", (JOINT, BASE), _sums, _drop_second),
)
