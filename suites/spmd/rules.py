"""What DTensor's rules for operators answer, called one by one, for arguments that are tensors or are none.

Owns the arguments, and how an answer is written down. A rule is called without the dispatcher, which takes
a wrong argument before it gets that far.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.distributed.tensor._op_schema import OpSchema, OpSpec, OpStrategy, TupleStrategy

from suites.spmd.dtensor_expressions import grid, meta, placements
from suites.spmd.strategies import candidates
from suites.values_as_text import REFUSALS, refusal, text

#: Rows of arguments, by a letter each: t, v and s are tensors of two, one and no dimensions, l two of them.
ROWS = (
    *(
        "",
        "t",
        "x",
        "N",
        "l",
        "L",
        "t x",
        "t t",
        "t v",
        "t n",
        "t d",
        "t L",
        "l n",
        "l x",
        "l l",
        "L n",
        "x t",
    ),
    *("t t t", "t n n", "t n t", "t v v", "t t x", "t x t", "t n x", "t d n", "v t t", "t n n n", "t n t t"),
    *("t t n n", "t d t d", "t t N t", "t t t t t", "s", "t s", "v", "v v", "v n v", "t n v"),
)
#: What Python refuses, whose words are another release's matter.
_OF_PYTHON = (AttributeError, IndexError, KeyError, TypeError)


def rules() -> dict[str, tuple[Any, Callable[..., Any], bool]]:
    """By name each rule: an operator that has it, the rule, and whether it is for one dimension of a mesh."""
    propagator = DTensor._op_dispatcher.sharding_propagator
    found: dict[str, tuple[Any, Callable[..., Any], bool]] = {}
    for op, rule in sorted(propagator.op_strategy_funcs.items(), key=str):
        found.setdefault(_name(rule), (op, rule, False))
    for op, info in sorted(propagator.op_single_dim_strategy_funcs.items(), key=str):
        found.setdefault(_name(info.func), (op, info.func, True))
    return found


def _name(rule: Any) -> str:
    while isinstance(rule, functools.partial):
        rule = rule.func
    return str(getattr(rule, "__qualname__", type(rule).__qualname__)).replace("<locals>.", "")


def lines_of(name: str) -> list[str]:
    """The answers of the rule of that name, each with the rows of arguments that have it."""
    op, rule, single = rules()[name]
    answers: dict[str, list[str]] = {}
    mesh = grid()
    for row in ROWS:
        answers.setdefault(_answer(op, rule, single, mesh, row), []).append(row or "none")
    return [f"{', '.join(rows)}: {answer}" for answer, rows in answers.items()]


def _answer(op: Any, rule: Callable[..., Any], single: bool, mesh: DeviceMesh, row: str) -> str:
    args = tuple(_argument(letter, single, mesh) for letter in row.split())
    try:
        found = rule(op, args, {}) if single else rule(OpSchema(op, args, {}))
    except _OF_PYTHON as error:
        return type(error).__name__
    except REFUSALS as error:
        return refusal(error)
    if isinstance(found, OpStrategy):
        return candidates(found)
    return " | ".join(map(text, found)) if isinstance(found, list) else text(found)


def _argument(letter: str, single: bool, mesh: DeviceMesh) -> Any:
    tensor = functools.partial(_tensor, single, mesh)
    match letter:
        case "t":
            return tensor(12, 24)
        case "v":
            return tensor(12)
        case "s":
            return tensor()
        case "l" if single:
            return (tensor(12, 24), tensor(12, 24))
        case "l":
            return TupleStrategy((tensor(12, 24), tensor(12, 24)))
        case "L":
            return [0, 1]
        case "n":
            return 1
        case "d":
            return torch.float64
        case "N":
            return None
        case _:
            return "x"


def _tensor(single: bool, mesh: DeviceMesh, *shape: int) -> Any:
    """Two ways in which a tensor lies, or what is known of it alone."""
    if single:
        return meta(*shape)
    ways = ("S0 R", "P S0") if shape else ("R R", "P R")
    return OpStrategy([OpSpec(DTensorSpec(mesh, placements(way), meta(*shape))) for way in ways])
