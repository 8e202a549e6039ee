"""Hyper-parameters that are inputs of the graph: learning rates, and those that are tensors.

A schedule changes the learning rate at every step. Were it part of the graph, each step would need a graph of
its own; so it is an input. A number stands in the trace as a symbol (the graph computes with Python numbers,
as the optimizer would), for a fused optimizer as a float64 tensor of no dimensions, since fused operators
take numbers as constants only. Should an optimizer decide something by the symbol's value, then that value is
the graph's alone, and another one needs another graph, as for all other hyper-parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.source import ConstantSource
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv
from torch.optim import Optimizer
from torch.utils._pytree import tree_flatten, tree_unflatten

from harness.graphs.train_step.snapshots import GuardSnapshot

#: The numbers that are lifted, where they are floats.
LIFTED = ("lr",)


@dataclass(frozen=True, slots=True)
class Hyperparameter:
    """One leaf of one entry of one param group; ``value`` as the graph is to get it.

    ``is_number`` where the optimizer has a number, whatever the graph gets.
    """

    group: int
    key: str
    leaf: int
    value: float | Tensor
    is_number: bool

    @property
    def name(self) -> str:
        """As a snapshot calls the entry."""
        return entry_name(self.group, self.key)


def entry_name(group: int, key: str) -> str:
    """What an entry of a param group is called."""
    return f"optimizer group {group} {key}"


def lift_hyperparameters(optimizer: Optimizer | None) -> tuple[Hyperparameter, ...]:
    """The hyper-parameters that a graph gets anew in each call."""
    lifted = []
    for index, group in enumerate(optimizer.param_groups if optimizer else ()):
        for key, value in group.items():
            for leaf, part in enumerate(() if key == "params" else tree_flatten(value)[0]):
                if isinstance(part, Tensor):
                    lifted.append(Hyperparameter(index, key, leaf, part, is_number=False))
                elif key in LIFTED and type(part) is float:
                    value_in = _as_input(part, group)
                    lifted.append(Hyperparameter(index, key, leaf, value_in, is_number=True))
    return tuple(lifted)


def _as_input(value: float, group: Mapping[str, Any]) -> float | Tensor:
    return torch.tensor(value, dtype=torch.float64) if group.get("fused") else value


def describe_hyperparameters(optimizer: Optimizer, snapshot: GuardSnapshot) -> None:
    """Notes the values of all entries, and of those that may be lifted also the type."""
    for index, group in enumerate(optimizer.param_groups):
        for key, value in group.items():
            if key != "params":
                snapshot.note(entry_name(index, key), value)
            if key in LIFTED:
                snapshot.note(f"type of {entry_name(index, key)}", type(value).__name__)


def stand_ins(lifted: Sequence[Hyperparameter], mode: FakeTensorMode) -> list[Any]:
    """What stands for the values in the trace: fake tensors, and symbols for numbers."""
    return [
        mode.from_tensor(each.value, static_shapes=True)
        if isinstance(each.value, Tensor)
        else _symbol(mode.shape_env, f"{each.name} ({each.leaf})", each.value)
        for each in lifted
    ]


def _symbol(environment: ShapeEnv, name: str, value: float) -> Any:
    source = ConstantSource(name)
    symbol = environment.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)
    return environment.create_symfloatnode(symbol, hint=value, source=source)


def symbol_of(stand_in: Any) -> Any:
    """The symbol behind a stand-in before anything is decided by it; None for a tensor."""
    return None if isinstance(stand_in, Tensor) else stand_in.node.expr


def undecided(
    lifted: Sequence[Hyperparameter], symbols: Sequence[Any], environment: ShapeEnv
) -> frozenset[str]:
    """Names of the entries whose number decided nothing during the trace, so that any other will do."""
    decided = set(environment.replacements)
    for guard in environment.guards:
        decided |= guard.expr.free_symbols
    free = (
        each for each, symbol in zip(lifted, symbols, strict=True) if each.is_number and symbol not in decided
    )
    return frozenset(each.name for each in free)


def put_hyperparameters(
    optimizer: Optimizer, lifted: Sequence[Hyperparameter], values: Sequence[Any]
) -> None:
    """Puts ``values`` in the places of the lifted ones, in the optimizer's param groups."""
    for each, new in zip(lifted, values, strict=True):
        group = optimizer.param_groups[each.group]
        leaves, spec = tree_flatten(group[each.key])
        leaves[each.leaf] = new
        group[each.key] = tree_unflatten(leaves, spec)
