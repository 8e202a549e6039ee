"""The strategies that DTensor weighs for an operator, each with what it costs to get there, as lines of text.

A line has the ways in which the tensors lie, and for each operator that was asked for, in the forward and in
the backward, its candidates: ``inputs>results@costs``, a cost for each input. ``1 is (3, 4)`` behind them
says that input 1 of some candidate has that shape, which is not the argument's.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from unittest import mock

from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import _sharding_prop
from torch.distributed.tensor._decompositions import DecompShardingStrategy
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema, OpSpec, OpStrategy
from torch.distributed.tensor.debug import _clear_sharding_prop_cache

from suites.spmd.layouts import Operator, words

#: So many ways are asked for of an operator: what is weighed differs by little but the costs.
MOST = 2


def lines_of(text: str, meshes: dict[int, DeviceMesh]) -> list[str]:
    """What is weighed for an operator of a table, by some ways in which its tensors lie."""
    operator = Operator(text)
    ways = operator.ways()
    most = MOST if operator.dimensions == 1 else 1
    chosen = ways[1 :: max(1, (len(ways) - 1) // most)][:most] or ways
    lines = []
    for way in chosen:
        with weighed() as found:
            tried = operator.tried(meshes[operator.dimensions], way)
        lines += [tried, *(f"    {each}" for each in found)]
    return lines


@contextlib.contextmanager
def weighed() -> Iterator[list[str]]:
    """A region that writes down what is weighed in it; nothing that was chosen before is remembered.

    Placements with which torch tries a decomposition are in a set, in an order that a process draws: here it
    is that of their names.
    """
    lines: list[str] = []
    select = _sharding_prop._select_min_cost_strategy
    found = DecompShardingStrategy._get_candidate_placements

    def in_order(schema):
        return sorted(found(schema), key=lambda placements: [str(each) for each in placements])

    def selecting(strategy, schema=None):
        name = "a list" if schema is None else str(schema.op).removeprefix("aten.")
        lines.append(f"{name}: {candidates(strategy)}{_strange(strategy, schema)}")
        return select(strategy, schema)

    _clear_sharding_prop_cache()
    with (
        mock.patch.object(_sharding_prop, "_select_min_cost_strategy", selecting),
        mock.patch.object(DecompShardingStrategy, "_get_candidate_placements", staticmethod(in_order)),
    ):
        yield lines
    _clear_sharding_prop_cache()


def candidates(strategy: OpStrategy) -> str:
    """What an operator may take and give, and what it costs to get there, one by one."""
    return " ".join(map(_candidate, strategy.strategies))


def _strange(strategy: OpStrategy, schema: OpSchema | None) -> str:
    """Which inputs, by number, have another shape in a candidate than the argument that they stand for."""
    given = () if schema is None else schema.args_spec
    found = {
        f" {number} is {tuple(spec.shape)}"
        for candidate in strategy.strategies
        for number, (spec, was) in enumerate(zip(candidate.input_specs or (), given, strict=False))
        if spec is not None and spec.tensor_meta is not None and spec.shape != was.shape
    }
    return "".join(sorted(found))


def _candidate(of: OpSpec) -> str:
    inputs = _specs(tuple(of.input_specs or ()))
    costs = ",".join("/".join(f"{each:.4g}" for each in row) for row in of.redistribute_cost or ())
    return f"{inputs}>{_specs(of.output_specs)}{'@' if costs else ''}{costs}"


def _specs(of: DTensorSpec | tuple[DTensorSpec | None, ...] | None) -> str:
    if isinstance(of, DTensorSpec):
        return words(of.placements)
    return ",".join("-" if each is None else words(each.placements) for each in of or ())
