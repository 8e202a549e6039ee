"""Expressions about placements, specs, plans and views of DTensors, and what comes of them as lines of text.

Owns the names that an expression of ``dtensor_tables.txt`` may use. They are evaluated in one process
that is rank 7 of a world of which nobody else is there.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from unittest import mock

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import (
    DTensor,
    Partial,
    Placement,
    Replicate,
    Shard,
    _collective_utils,
    _dtensor_spec,
    _op_schema,
    _ops,
    _random,
    _redistribute,
    _tp_conv,
    _utils,
    distribute_tensor,
    placement_types,
)
from torch.distributed.tensor._dtensor_spec import DTensorSpec, ShardOrderEntry, TensorMeta
from torch.distributed.tensor._op_schema import OpSpec, OpStrategy
from torch.distributed.tensor._ops import _einsum_strategy, _math_ops, _view_ops
from torch.distributed.tensor._ops import utils as op_utils
from torch.distributed.tensor.placement_types import _StridedShard
from torch.utils._python_dispatch import TorchDispatchMode

from suites.fake_world import WORLD
from suites.values_as_text import REFUSALS, first_line, refusal, text

# -- names


def line() -> DeviceMesh:
    return init_device_mesh("cpu", (WORLD,))


def grid() -> DeviceMesh:
    return init_device_mesh("cpu", (3, 4), mesh_dim_names=("r", "c"))


def square() -> DeviceMesh:
    """Four ranks, of which this is the last but one."""
    return DeviceMesh("cpu", [[1, 4], [7, 9]], mesh_dim_names=("r", "c"))


def cube(*flat: str) -> DeviceMesh:
    """All ranks in three dimensions; those of ``flat`` have groups together."""
    mesh = init_device_mesh("cpu", (2, 3, 2), mesh_dim_names=("a", "b", "c"))
    for names in flat:
        mesh[tuple(names)]._flatten(names.upper())
    return mesh


def away() -> DeviceMesh:
    """Ranks of which this is none."""
    return DeviceMesh("cpu", [0, 1, 2, 3])


def placements(words: str) -> tuple[Placement, ...]:
    """``S0 Z1/2 R P Pmax``: Z is a strided shard with its factor."""
    return tuple(map(_placement, words.split()))


def _placement(word: str) -> Placement:
    kind, rest = word[0], word[1:]
    if kind == "S":
        return Shard(int(rest))
    if kind == "Z":
        dim, _, factor = rest.partition("/")
        return _StridedShard(int(dim), split_factor=int(factor))
    return Replicate() if kind == "R" else Partial(rest or "sum")


def order(**dims: Sequence[int]) -> tuple[ShardOrderEntry, ...]:
    """``order(d0=(1, 0))``: dimension 0 of the tensor is cut by dimension 1 of the mesh, then by 0."""
    return tuple(ShardOrderEntry(int(name[1:]), tuple(of)) for name, of in dims.items())


def meta(*shape: int, dtype: torch.dtype = torch.float32) -> TensorMeta:
    whole = torch.empty(shape, device="meta", dtype=dtype)
    return TensorMeta(whole.shape, whole.stride(), dtype)


def spec(mesh: DeviceMesh, words: str, *shape: int, **more: Any) -> DTensorSpec:
    return DTensorSpec(mesh, placements(words), meta(*shape), **more)


def ways(mesh: DeviceMesh, *words: str, shape: Sequence[int] = (6, 4)) -> OpStrategy:
    """Ways in which a tensor may lie, as an operator before it gives them."""
    return OpStrategy([OpSpec(spec(mesh, each, *shape)) for each in words])


class Calls(TorchDispatchMode):
    """A region that writes down the functional collectives started in it, and waits for them on demand."""

    def __init__(self, waits: bool = False) -> None:
        super().__init__()
        self.lines: list[str] = []
        self._waits = waits

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if any(issubclass(each, DTensor) for each in types):
            return NotImplemented
        if func.namespace in ("_c10d_functional", "_dtensor", "c10d_functional"):
            name = func._schema.name.rpartition("::")[2]
            if self._waits or name != "wait_tensor":
                self.lines.append(f"{name}({', '.join(map(_argument, args))})")
        return func(*args, **(kwargs or {}))


def _argument(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return str(list(value.shape))
    if isinstance(value, list):
        return f"({', '.join(map(_argument, value))})"
    if isinstance(value, str) and value.isdigit():
        group = dist.distributed_c10d._resolve_process_group(value)
        return f"ranks {dist.get_process_group_ranks(group)}"
    return str(value)


def moved(mesh: DeviceMesh, start: str, end: str, *shape: int, orders: Sequence[Any] = (None, None)) -> list:
    """The local shapes and collectives from one layout to another, and of the way back of a gradient."""
    before = DTensorSpec(mesh, placements(start), meta(*shape), shard_order=orders[0])
    after = DTensorSpec(mesh, placements(end), meta(*shape), shard_order=orders[1])
    sizes, _ = _utils._compute_local_shape_and_global_offset(
        shape, mesh.shape, mesh.get_coordinate(), before.placements
    )
    with Calls() as calls:
        found = _redistribute.redistribute_local_tensor(torch.ones(sizes), before, after)
    return [f"{list(sizes)} to {list(found.shape)}", *calls.lines]


def plans(mesh: DeviceMesh, shape: Sequence[int], starts: str, ends: str) -> list[str]:
    """Of each way the steps that are planned, by both planners, how they are joined, and what they cost."""
    lines = []
    for start, end in itertools.product(starts.split(", "), ends.split(", ")):
        if start != end:
            lines.append(plan(spec(mesh, start, *shape), spec(mesh, end, *shape)))
    return lines


def plan(before: DTensorSpec, after: DTensorSpec) -> str:
    by_planner: dict[str, list[str]] = {}
    for name, cheapest in (("greedy", False), ("cheapest", True)):
        by_planner.setdefault(_steps(before, after, cheapest), []).append(name)
    said = "; ".join(f"{' '.join(names)}: {steps}" for steps, names in by_planner.items())
    return said.removeprefix("greedy cheapest: ") + f" costs {_cost(before, after)}"


def _cost(before: DTensorSpec, after: DTensorSpec) -> str:
    try:
        return f"{_collective_utils.redistribute_cost(before, after):.6g}"
    except REFUSALS as error:
        return refusal(error)


def _steps(before: DTensorSpec, after: DTensorSpec, cheapest: bool) -> str:
    mesh = before.mesh
    try:
        infos = _redistribute._gen_transform_infos_non_cached(before, after, cheapest)
        joined = _redistribute._optimize_transform_infos(infos, mesh, before.placements, after.placements)
    except REFUSALS as error:
        return refusal(error)
    steps = (
        f"{getattr(each, 'original_mesh_dims', each.mesh_dim)}: "
        f"{'>'.join(map(str, each.src_dst_placements))} "
        f"of {'x'.join(map(str, each.logical_shape))}{_divided(each)}"
        for each in joined
    )
    return ", ".join(steps)


def _divided(info: _redistribute._TransformInfo) -> str:
    scale = getattr(info, "avg_scale", None)
    return "" if scale is None else f" / {scale}"


def told(mesh: DeviceMesh, start: str, end: str, *shape: int) -> str:
    """The layouts on the way, as torch's own words for a log have them."""
    before, after = spec(mesh, start, *shape), spec(mesh, end, *shape)
    infos = _redistribute._gen_transform_infos_non_cached(before, after, False)
    joined = _redistribute._optimize_transform_infos(infos, mesh, before.placements, after.placements)
    return _redistribute.DTensorRedistributePlanner.stringify_transform_infos(
        mesh, joined, before.placements, before.shard_order, before.use_strided_shard_as_shard_order
    )


def parts(placement: Placement, size: int, count: int) -> list[Any]:
    """What each rank has of a row of numbers: sizes, offsets, and the numbers themselves."""
    row = torch.arange(size)
    cut, pads = placement._split_tensor(row, count)
    alone = [
        placement._select_split_tensor(row, count, at, with_padding=False).tolist() for at in range(count)
    ]
    sizes = [placement._local_shard_size_and_offset(size, count, at) for at in range(count)]
    return [sizes, [each.tolist() for each in cut], pads, alone]


def warned(function: Any) -> list[str]:
    """What a function logs as a warning of plans."""
    with (
        mock.patch.object(_redistribute, "_warned_flatten_issues", set()),
        mock.patch.object(_redistribute.logger, "warning") as warning,
    ):
        function()
    return [str(call.args[0]) % call.args[1:] for call in warning.call_args_list]


def viewed(mesh: DeviceMesh, words: str, source: Sequence[int], target: Sequence[int], strict: bool = False):
    """What a view needs of its input, and gives, by the rule of the two shapes."""
    rule = _view_ops.view_groups(tuple(source), tuple(target))
    try:
        wanted, given = _view_ops.propagate_shape_and_sharding(
            placements(words), tuple(source), rule, mesh.shape, strict
        )
    except REFUSALS as error:
        return refusal(error)
    return f"{' '.join(map(str, wanted))} -> {' '.join(map(str, given))}"


NAMES: dict[str, Any] = {
    name: value
    for module in (placement_types, _dtensor_spec, _op_schema, _utils, _collective_utils, _redistribute)
    for name, value in vars(module).items()
    if callable(value)
}
NAMES |= {name: getattr(_view_ops, name) for name in vars(_view_ops) if not name.startswith("__")}
NAMES |= {name: getattr(op_utils, name) for name in vars(op_utils) if not name.startswith("__")}
NAMES |= {name: getattr(_einsum_strategy, name) for name in ("EinsumDims", "gen_einsum_strategies")}
NAMES |= {"aten": torch.ops.aten, "autogen": getattr(_ops, "autogen", None)}  # since torch 2.13
NAMES |= {name: value for name, value in globals().items() if not name.startswith("_") or name[1].isupper()}


NAMES |= {
    "distribute_tensor": distribute_tensor,
    "_math_ops": _math_ops,
    "_random": _random,
    "_tp_conv": _tp_conv,
}

# -- values


def lines_of(expression: str, names: Mapping[str, Any] = NAMES) -> list[str]:
    """What an expression gives, or how it is refused, with its warnings."""
    with warnings.catch_warnings(record=True) as caught, _quiet():
        warnings.simplefilter("always")
        try:
            value = eval(expression, dict(names))
            found = [text(each) for each in value] if isinstance(value, list) else [text(value)]
        except REFUSALS as error:
            found = [refusal(error)]
    # Others are given once in a process.
    future = [each for each in caught if each.category is FutureWarning]
    found += [f"warns: {first_line(str(each.message))}" for each in future]
    return [each.replace("\n", " ").rstrip() for each in found]


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    logger, level = _redistribute.logger, _redistribute.logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)
