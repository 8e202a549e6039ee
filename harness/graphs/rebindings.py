"""What a function rebinds: places in its arguments and its module that hold another object afterwards.

``self.count = self.count + 1``, ``d["x"] = d["x"] * 2`` and ``items.append(x)`` write to no tensor, so that
the tensors which the function was given show nothing of them.
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

# What counts by its value; of other objects that are no tensors the identity does.
VALUES = (int, float, complex, bool, str, bytes, torch.dtype, torch.device, type(None))


@dataclass(frozen=True, slots=True)
class Rebinding:
    """What a place holds that is not what it held before the call.

    ``snapshot`` is a tensor's, and ``memory`` names the inputs and outputs that it shares memory with. Of
    everything else ``value`` is the object, or the type of one that has no value to compare.
    """

    snapshot: TensorSnapshot | None = None
    memory: tuple[str, ...] = ()
    value: Any = None
    gone: bool = False


def bindings_of(function: Callable[..., Any], arguments: Sequence[Any]) -> dict[str, Any]:
    """By name, what stands in the arguments' containers, and a module's parameters and buffers."""
    return dict(named_inputs(function, arguments)) | dict(module_tensors(function))


def module_tensors(function: Any) -> list[Named]:
    """A module's parameters, then its buffers, each under its first name; of a plain function none."""
    if not isinstance(function, torch.nn.Module):
        return []
    parameters = [(f"parameter {name}", value) for name, value in function.named_parameters()]
    return [*parameters, *((f"buffer {name}", value) for name, value in function.named_buffers())]


def rebindings(
    before: dict[str, Any], after: dict[str, Any], inputs: Sequence[Named], outputs: Sequence[Named]
) -> dict[str, Rebinding]:
    """By name, the places that are new, gone, or hold another object."""
    return dict(_rebindings(before, after, [*inputs, *outputs]))


def _rebindings(
    before: dict[str, Any], after: dict[str, Any], known: Sequence[Named]
) -> Iterator[tuple[str, Rebinding]]:
    for name, value in after.items():
        if name in before and _same(before[name], value):
            continue
        if isinstance(value, torch.Tensor):
            # Under no name, so that what stood here before is another tensor.
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
