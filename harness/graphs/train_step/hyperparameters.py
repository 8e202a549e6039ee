"""Makes learning rates, and hyper-parameters that are tensors, inputs of a train step's graph.

A schedule changes the learning rate at every step. If it were a constant of the graph, each step would need a
graph of its own (pytorch/pytorch#107076). In the trace the number is a symbol, so that the graph computes
with Python numbers as the optimizer would; for a fused optimizer it is a float64 tensor without dimensions,
because fused operators take numbers as constants only. If an optimizer branches on the symbol's value, the
graph is valid for that value only, as for every other hyper-parameter.
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

#: The entries of a param group that become inputs of the graph where they are floats.
LIFTED = ("lr",)


@dataclass(frozen=True, slots=True)
class Hyperparameter:
    """One hyper-parameter that is an input of the graph: a leaf of an entry of a param group.

    ``value`` is what the graph gets. ``is_number`` says that the optimizer holds a number, even if the graph
    gets a tensor for it.
    """

    group: int
    key: str
    leaf: int
    value: float | Tensor
    is_number: bool

    @property
    def name(self) -> str:
        """The name of the param group's entry in a snapshot."""
        return entry_name(self.group, self.key)


def entry_name(group: int, key: str) -> str:
    """The name of a param group's entry, in snapshots and in messages."""
    return f"optimizer group {group} {key}"


def lift_hyperparameters(optimizer: Optimizer | None) -> tuple[Hyperparameter, ...]:
    """The hyper-parameters that a graph takes as inputs, with their values at this call."""
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
    """Notes the values of all param groups' entries, and the types of those that may become inputs."""
    for index, group in enumerate(optimizer.param_groups):
        for key, value in group.items():
            if key != "params":
                snapshot.note(entry_name(index, key), value)
            if key in LIFTED:
                snapshot.note(f"type of {entry_name(index, key)}", type(value).__name__)


def stand_ins(lifted: Sequence[Hyperparameter], mode: FakeTensorMode) -> list[Any]:
    """The stand-ins for the values during a trace: fake tensors for tensors, symbols for numbers."""
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
    """The symbol of a number's stand-in, to be asked for before the trace; None for a tensor."""
    return None if isinstance(stand_in, Tensor) else stand_in.node.expr


def undecided(
    lifted: Sequence[Hyperparameter], symbols: Sequence[Any], environment: ShapeEnv
) -> frozenset[str]:
    """The names of the entries on whose number nothing branched, so that the graph is valid for any other."""
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
    """Replaces the lifted hyper-parameters by ``values`` in the optimizer's param groups."""
    for each, new in zip(lifted, values, strict=True):
        group = optimizer.param_groups[each.group]
        leaves, spec = tree_flatten(group[each.key])
        leaves[each.leaf] = new
        group[each.key] = tree_unflatten(leaves, spec)
