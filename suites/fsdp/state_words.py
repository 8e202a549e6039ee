"""States of models and optimizers in words: what kind of value each is, where its parts lie, and its numbers.

For tables of what FSDP1 makes of states: the numbers are whole, so that they are written as they are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.distributed._shard.sharded_tensor import ShardedTensor
from torch.distributed.tensor import DTensor

#: A tensor of more numbers is written as the first, the last, their sum, and the sum of each times its place.
MOST = 4


def words_of(value: Any) -> str:
    """A value, as one line."""
    if isinstance(value, DTensor):
        places = " ".join(map(str, value.placements))
        return (
            f"{list(value.shape)} {places} on {value.device_mesh.mesh.tolist()}: {words_of(value.to_local())}"
        )
    if isinstance(value, ShardedTensor):
        parts = " and ".join(
            f"{words_of(each.tensor)} at {list(each.metadata.shard_offsets)} of {each.metadata.placement}"
            for each in value.local_shards()
        )
        every = [list(each.shard_offsets) for each in value.metadata().shards_metadata]
        return f"{list(value.size())} in parts {every}: {parts}"
    if isinstance(value, torch.Tensor):
        kind = "" if type(value) is torch.Tensor else f"{type(value).__name__} "
        wants = " that wants a gradient" if value.requires_grad else ""
        dtype = str(value.dtype).removeprefix("torch.")
        return f"{kind}{dtype}{list(value.shape)}{wants} {numbers(value)}"
    return repr(value)


def numbers(tensor: torch.Tensor) -> str:
    """The numbers of a tensor, or what tells them from others."""
    flat = tensor.detach().flatten().tolist()
    if len(flat) <= MOST:
        return " ".join(f"{each:g}" for each in flat)
    weighted = sum(place * each for place, each in enumerate(flat))
    return f"{flat[0]:g} to {flat[-1]:g}, {sum(flat):g} and {weighted:g}"


def state_lines(state: Mapping[str, Any]) -> list[str]:
    """A model's state, a line for each entry in its order."""
    return [f"{name}: {words_of(value)}" for name, value in state.items()]


def optimizer_lines(state: Mapping[str, Any]) -> list[str]:
    """An optimizer's state: a line for each parameter, sorted, and one for each of its groups."""
    lines = [
        f"{key}: {_values_line(values)}"
        for key, values in sorted(state.get("state", {}).items(), key=lambda each: str(each[0]))
    ]
    groups: Sequence[Mapping[str, Any]] = state.get("param_groups", ())
    lines += [f"lr={each['lr']} {each['params']}" for each in groups]
    return [*lines, *(f"and {name}" for name in state if name not in ("state", "param_groups"))]


def _values_line(values: Any) -> str:
    """The state of a parameter; or what stands beside those, which may be anything."""
    if not isinstance(values, Mapping):
        return words_of(values)
    return "; ".join(f"{name} {words_of(value)}" for name, value in sorted(values.items()))
