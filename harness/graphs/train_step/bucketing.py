"""Merges the all-reduces of gradients that become ready one after another into buckets."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.node import map_arg

MIB = 1024 * 1024

_ALL_REDUCE = torch.ops._c10d_functional.all_reduce.default
_WAIT = torch.ops._c10d_functional.wait_tensor.default


@dataclass(slots=True)
class _Bucket:
    """All-reduces of one kind that can be merged: no result is read before the last gradient is ready."""

    reduces: list[Node] = field(default_factory=list)
    readers: list[Node] = field(default_factory=list)
    size: int = 0

    def takes(self, reduce: Node, limit: float) -> bool:
        """Whether an all-reduce later in the graph may join this bucket of at most ``limit`` bytes."""
        in_time = all(reduce < reader for reader in self.readers)
        return not self.reduces or (in_time and self.size + _bytes(reduce) <= limit)

    def add(self, reduce: Node) -> None:
        """Adds an all-reduce to the bucket."""
        self.reduces.append(reduce)
        self.readers += _followed(reduce)[1]
        self.size += _bytes(reduce)


def bucket_all_reduces(gm: GraphModule, bucket_mb: float) -> None:
    """Merges neighbouring all-reduces into one as long as they are together at most ``bucket_mb`` MiB.

    An all-reduce that is larger stays alone. The order is that in which backward reaches the gradients: the
    last layer comes first. The sums stay bitwise equal, because each element is still summed over the ranks.
    """
    for bucket in list(_buckets(gm, bucket_mb * MIB)):
        if len(bucket) > 1:
            _merge(gm, bucket)


def _buckets(gm: GraphModule, limit: float) -> Iterator[Sequence[Node]]:
    """Yields the all-reduces of gradients, bucket by bucket.

    Only an all-reduce whose single user is a wait counts as one of a gradient.
    """
    open_: dict[Any, _Bucket] = {}
    for reduce in gm.graph.find_nodes(op="call_function", target=_ALL_REDUCE):
        if [user.target for user in reduce.users] != [_WAIT]:
            continue
        bucket = open_.setdefault(_kind(reduce), _Bucket())
        if not bucket.takes(reduce, limit):
            yield bucket.reduces
            bucket = open_[_kind(reduce)] = _Bucket()
        bucket.add(reduce)
    yield from (bucket.reduces for bucket in open_.values())


def _kind(reduce: Node) -> tuple[Any, ...]:
    """What two all-reduces must have in common to be merged: dtype, device, reduction and group."""
    value = reduce.meta["val"]
    return (value.dtype, value.device, *reduce.args[1:])


def _bytes(reduce: Node) -> int:
    value = reduce.meta["val"]
    size: int = value.numel() * value.dtype.itemsize
    return size


def _wait_of(reduce: Node) -> Node:
    return next(iter(reduce.users))


def _followed(reduce: Node) -> tuple[list[Node], list[Node]]:
    """The nodes that depend on one reduced gradient alone, and the other nodes that read these.

    A node that depends on the gradient alone (it is detached, or laid out as its parameter) may be moved
    behind a later all-reduce, if all of its readers come after that.
    """
    made, readers = {_wait_of(reduce): None}, []
    node = _wait_of(reduce)
    while node.op != "output":
        node = node.next
        taken = [each for each in node.all_input_nodes if each in made]
        if taken and len(taken) == len(node.all_input_nodes) and _may_come_later(node):
            made[node] = None
        elif taken:
            readers.append(node)
    return list(made), readers


def _may_come_later(node: Node) -> bool:
    """Whether a node calls an operator that draws no random numbers, so that it may be moved.

    The operator may write to its inputs: they depend on the gradient alone, and moved nodes keep their order.
    """
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and (
        torch.Tag.nondeterministic_seeded not in target.tags
    )


def _merge(gm: GraphModule, reduces: Sequence[Node]) -> None:
    """Replaces ``reduces`` by one all-reduce of the flattened gradients, at the place of the last of them."""
    shapes = [reduce.meta["val"].shape for reduce in reduces]
    made = sorted(node for reduce in reduces[:-1] for node in _followed(reduce)[0][1:])
    sizes = [shape.numel() for shape in shapes]
    with gm.graph.inserting_before(reduces[-1]):
        flat = [_call(gm, torch.ops.aten.reshape.default, reduce.args[0], [-1]) for reduce in reduces]
        bucket = _call(gm, torch.ops.aten.cat.default, flat)
        summed = _call(gm, _WAIT, _call(gm, _ALL_REDUCE, bucket, *reduces[0].args[1:]))
        parts = _call(gm, torch.ops.aten.split_with_sizes.default, summed, sizes)
        for index, (reduce, shape) in enumerate(zip(reduces, shapes, strict=True)):
            part = _call(gm, operator.getitem, parts, index)
            whole = _call(gm, torch.ops.aten.view.default, part, list(shape))
            _wait_of(reduce).replace_all_uses_with(whole)
    for node in reversed(made):
        whole.append(node)
    for reduce in reduces:
        gm.graph.erase_node(_wait_of(reduce))
        gm.graph.erase_node(reduce)


def _call(gm: GraphModule, target: Any, *args: Any) -> Node:
    """Adds a call to the graph and sets its ``meta["val"]``, as the tracer does for its own nodes."""
    node = gm.graph.call_function(target, args)
    node.meta["val"] = target(*map_arg(args, lambda each: each.meta["val"]))
    return node
