"""Lists the collectives in a captured graph, counts them, and adds up the bytes that they communicate.

Reads the graph of any tracer whose nodes carry fake values in ``meta["val"]``: ``make_fx``, AOTAutograd, the
train-step tracer. Functional collectives and plain ones are recognised (see ``collective_waits.py``), also in
the graphs of nested graph modules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.fx import Graph, GraphModule, Node
from torch.utils._pytree import tree_leaves

from harness.errors import UsageError
from harness.graphs import collective_waits

__all__ = [
    "Collective",
    "collectives_of",
    "communication_bytes",
    "count_collectives",
    "summarize_collectives",
]

# Functional operators, without the marks of their variants ("_", "_out").
_FUNCTIONAL = {
    "all_gather_into_tensor",
    "all_gather_into_tensor_coalesced",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all_single",
    "batch_p2p_ops",
    "broadcast",
    "irecv",
    "isend",
    "reduce_scatter_tensor",
    "reduce_scatter_tensor_coalesced",
}
# Plain operators -> the name of the matching function of torch.distributed or functional operator.
_PLAIN = {
    "_allgather_base_": "all_gather_into_tensor",
    "_reduce_scatter_base_": "reduce_scatter_tensor",
    "allgather_": "all_gather",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_into_tensor_coalesced",
    "allreduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all_single",
    "barrier": "barrier",
    "broadcast_": "broadcast",
    "gather_": "gather",
    "monitored_barrier_": "monitored_barrier",
    "recv_": "recv",
    "recv_any_source_": "recv",
    "reduce_": "reduce",
    "reduce_scatter_": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_tensor_coalesced",
    "scatter_": "scatter",
    "send": "send",
}
# Collectives whose tensor argument only names a device.
_WITHOUT_DATA = ("barrier", "monitored_barrier")


@dataclass(frozen=True, slots=True)
class Collective:
    """One collective of a graph.

    ``name`` is its name in ``torch.distributed`` or among the functional collectives (``all_reduce``),
    ``node`` that of its graph node, ``group`` that of its process group. ``reduction`` is a name such as
    ``sum``; it is "" for plain collectives, whose graph holds the reduction as an object that cannot be read.
    ``payload_bytes`` is the size on this rank of all its inputs or all its outputs, whichever is larger (the
    gathered tensor of an all-gather, the whole input of a reduce-scatter), and 0 for a barrier. ``dtypes``
    and ``shapes`` are those of the same tensors. ``waited``: nothing uses its results before a wait.
    """

    name: str
    node: str
    group: str
    reduction: str
    dtypes: tuple[torch.dtype, ...]
    shapes: tuple[tuple[int, ...], ...]
    payload_bytes: int
    waited: bool


def collectives_of(graph: Graph | GraphModule) -> tuple[Collective, ...]:
    """The collectives of a graph in graph order, followed by those of nested graph modules.

    UsageError where a collective's tensors have no known size: no ``meta["val"]``, or a symbolic shape.
    """
    found = []
    for each in _graphs(graph):
        early = {unwaited.collective for unwaited in collective_waits.unwaited(each)}
        found += [_read(node, name, node not in early) for node, name in _communicating(each)]
    return tuple(found)


def count_collectives(graph: Graph | GraphModule) -> Counter[str]:
    """The number of collectives by name, as in ``{"all_reduce": 2}``. A coalesced collective counts once."""
    return Counter(name for each in _graphs(graph) for _, name in _communicating(each))


def communication_bytes(graph: Graph | GraphModule) -> int:
    """The sum of the payloads of a graph's collectives, in bytes, on this rank.

    Raises UsageError as ``collectives_of`` does.
    """
    return sum(each.payload_bytes for each in collectives_of(graph))


def summarize_collectives(graph: Graph | GraphModule) -> str:
    """A table of the collectives and their total as text. UsageError as in ``collectives_of``."""
    found = collectives_of(graph)
    title = ("collective", "group", "reduction", "dtype", "shapes", "bytes", "waited")
    rows = [title, *map(_row, found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]
    counts = ", ".join(f"{count} {name}" for name, count in sorted(count_collectives(graph).items()))
    lines.append(f"{counts or 'no collectives'}: {sum(c.payload_bytes for c in found)} bytes")
    return "\n".join(lines)


def _row(each: Collective) -> tuple[str, ...]:
    return (
        each.name,
        each.group,
        each.reduction or "-",
        ",".join(dict.fromkeys(str(dtype).removeprefix("torch.") for dtype in each.dtypes)) or "-",
        " ".join(str(list(shape)) for shape in each.shapes) or "-",
        str(each.payload_bytes),
        "yes" if each.waited else "NO",
    )


def _communicating(graph: Graph) -> Iterator[tuple[Node, str]]:
    """The nodes of collectives, each with the collective's name."""
    named = ((node, _name_of(node)) for node in collective_waits.collectives(graph))
    return ((node, name) for node, name in named if name)


def _graphs(graph: Graph | GraphModule) -> Iterator[Graph]:
    if isinstance(graph, Graph):
        yield graph
    elif isinstance(graph, GraphModule):
        for module in graph.modules():
            if isinstance(module, GraphModule):
                yield module.graph
    else:
        raise UsageError(f"collectives are counted in a torch.fx Graph or GraphModule, not in {graph!r}")


def _name_of(node: Node) -> str:
    """The name of the collective that a node calls; "" for an operator that does not communicate."""
    space, name = _schema(node).name.split("::")
    if space == collective_waits.PLAIN:
        return _PLAIN.get(name, str(name))
    base: str = name.removesuffix("_out").removesuffix("_")
    return base if base in _FUNCTIONAL else ""


def _schema(node: Node) -> Any:
    """The schema of the operator that a node calls; without an overload, that of the default overload."""
    target: Any = node.target
    return getattr(target, "default", target)._schema


def _read(node: Node, name: str, waited: bool) -> Collective:
    named = _arguments(node)
    values = [] if name in _WITHOUT_DATA else [*named.values(), node]
    largest = max((_sizes(node, value) for value in values), key=_bytes_of, default=[])
    reduction = named.get("reduce_op")
    return Collective(
        name=name,
        node=node.name,
        group=_group_name(named.get("group_name", named.get("process_group"))),
        reduction=reduction if isinstance(reduction, str) else "",
        dtypes=tuple(dtype for dtype, _ in largest),
        shapes=tuple(shape for _, shape in largest),
        payload_bytes=_bytes_of(largest),
        waited=waited,
    )


def _arguments(node: Node) -> dict[str, Any]:
    """A node's arguments by their names in the operator's schema."""
    names = [argument.name for argument in _schema(node).arguments]
    return {**dict(zip(names, node.args, strict=False)), **node.kwargs}


def _group_name(group: Any) -> str:
    if isinstance(group, Node):  # plain collectives have their group as an attribute of the graph's module
        group = getattr(group.graph.owning_module, str(group.target), group.target)
    if isinstance(group, torch.ScriptObject):
        group = dist.ProcessGroup.unbox(group)
    return str(getattr(group, "group_name", group))


def _sizes(node: Node, value: Any) -> list[tuple[torch.dtype, tuple[int, ...]]]:
    """The dtypes and shapes of the tensors in one argument of a node, or in its output."""
    found = []
    for leaf in tree_leaves(value):
        if not isinstance(leaf, Node) or leaf.op == "get_attr":
            continue
        if "val" not in leaf.meta:
            raise UsageError(f"{node.name}: {leaf.name} has no meta['val'], so its size is not known")
        for tensor in tree_leaves(leaf.meta.get("val")):
            if isinstance(tensor, torch.Tensor):
                if not all(type(size) is int for size in tensor.shape):
                    raise UsageError(f"{node.name}: {leaf.name} has a symbolic shape: trace with static ones")
                found.append((tensor.dtype, tuple(tensor.shape)))
    return found


def _bytes_of(tensors: list[tuple[torch.dtype, tuple[int, ...]]]) -> int:
    return sum(dtype.itemsize * torch.Size(shape).numel() for dtype, shape in tensors)
