"""Finds the places in a function's arguments and module that hold another object after the call.

``self.count = self.count + 1``, ``d["x"] = d["x"] * 2`` and ``items.append(x)`` write to no tensor, so that
comparing the tensors that the function was given does not reveal them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from harness.graphs.aliasing import Named, aliases_of
from harness.graphs.leaf_names import named_inputs
from harness.graphs.snapshots import TensorSnapshot, snapshot

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

# Objects of these types are compared by value, other objects that are not tensors by identity.
VALUES = (int, float, complex, bool, str, bytes, torch.dtype, torch.device, type(None))


@dataclass(frozen=True, slots=True)
class Rebinding:
    """The new content of a place that held another object, or none, before the call.

    For a tensor, ``snapshot`` is set, and ``memory`` names the inputs and outputs that it shares memory with.
    For anything else ``value`` is the object, or its type if it cannot be compared by value. ``gone``: the
    place no longer exists.
    """

    snapshot: TensorSnapshot | None = None
    memory: tuple[str, ...] = ()
    value: Any = None
    gone: bool = False


def bindings_of(function: Callable[..., Any], arguments: Sequence[Any]) -> dict[str, Any]:
    """The objects in the arguments' containers, and a module's parameters and buffers, by name."""
    return dict(named_inputs(function, arguments)) | dict(module_tensors(function))


def module_tensors(function: Any) -> list[Named]:
    """A module's parameters, then its buffers, each under its first name; empty for a plain function."""
    if not isinstance(function, torch.nn.Module):
        return []
    parameters = [(f"parameter {name}", value) for name, value in function.named_parameters()]
    return [*parameters, *((f"buffer {name}", value) for name, value in function.named_buffers())]


def rebindings(
    before: dict[str, Any], after: dict[str, Any], inputs: Sequence[Named], outputs: Sequence[Named]
) -> dict[str, Rebinding]:
    """The places, by name, that are new, gone, or hold another object."""
    return dict(_rebindings(before, after, [*inputs, *outputs]))


def _rebindings(
    before: dict[str, Any], after: dict[str, Any], known: Sequence[Named]
) -> Iterator[tuple[str, Rebinding]]:
    for name, value in after.items():
        if name in before and _same(before[name], value):
            continue
        if isinstance(value, torch.Tensor):
            # Without a name, so that the tensor that the place held before counts as another one.
            yield name, Rebinding(snapshot(value), aliases_of(known, [("", value)])[""].memory)
        else:
            yield name, Rebinding(value=value if isinstance(value, VALUES) else type(value))
    for name in before.keys() - after.keys():
        yield name, Rebinding(gone=True)


def _same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    if type(one) is not type(other) or not isinstance(one, VALUES):
        return False
    return bool(one == other or (one != one and other != other))  # a nan is not even itself
