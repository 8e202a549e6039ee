"""``Fields``: what FSDP's objects keep in their fields, as text, and which of them have changed since."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp._fully_shard._fsdp_common import DataParallelMeshInfo
from torch.distributed.fsdp._fully_shard._fsdp_state import FSDPState
from torch.distributed.tensor import DTensor
from torch.distributed.tensor._dtensor_spec import DTensorSpec
from torch.utils._python_dispatch import _disable_current_modes

from suites.fsdp.schedule import Event, Stream
from suites.fsdp.state_words import words_of
from suites.values_as_text import text

#: A line has the changes of one object, as many as fit into so many characters.
WIDTH = 400
_ADDRESS = re.compile(r" at 0x[0-9a-f]+")


def shown(value: Any) -> str:
    """A value of a field in words: of other objects no more than what they are."""
    if isinstance(value, enum.Enum):
        return value.name
    if value is None or isinstance(value, bool | int | str | torch.dtype):
        return str(value)
    if isinstance(value, torch.Tensor):
        return _tensor(value)
    if isinstance(value, Event):
        return f"after {value.last}"
    if isinstance(value, Stream):
        return "a stream"
    if isinstance(value, nn.Module):
        return type(value).__name__
    if isinstance(value, dist.ProcessGroup):
        return f"ranks {dist.get_process_group_ranks(value)}"
    if isinstance(value, DeviceMesh):
        return _mesh(value)
    if isinstance(value, DTensorSpec):
        return text(value)
    if isinstance(value, FSDPState):
        return f"state of {', '.join(getattr(each, 'name', 'the model') for each in value._modules)}"
    if isinstance(value, DataParallelMeshInfo):
        return f"{type(value).__name__} {shown(value.mesh)}"
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_key(key)}: {shown(of)}" for key, of in value.items()) + "}"
    if isinstance(value, set | frozenset):
        return "{" + ", ".join(sorted(map(shown, value))) + "}"
    if isinstance(value, list | tuple | deque):
        return f"({', '.join(map(shown, value))})"
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return f"{type(value).__name__}{shown(list(vars(value).values()))}"
    if callable(value):
        return getattr(value, "__qualname__", type(value).__name__)
    return _ADDRESS.sub("", str(value))


@cache
def _mesh(mesh: DeviceMesh) -> str:
    """A mesh by its ranks, which it computes whenever it is asked for them."""
    return f"mesh {mesh.mesh.tolist()}"


def _key(key: Any) -> str:
    """A key of a field, of a tensor no numbers."""
    return str(tuple(key.shape)) if isinstance(key, torch.Tensor) else shown(key)


def _tensor(value: torch.Tensor) -> str:
    """A tensor's kind and numbers, and its gradient's."""
    grad = value.grad if value.is_leaf else None
    plain = value._local_tensor if isinstance(value, DTensor) else value
    if plain.is_meta:
        return f"{value.dtype} {tuple(value.shape)} on meta"
    freed = plain.untyped_storage().size() == 0 < plain.numel()
    inference = value.is_inference()
    words = f"freed {tuple(value.shape)}" if freed else words_of(value if inference else value.detach())
    if not inference and value._version:
        words += f", version {value._version}"
    wants = " *" if value.requires_grad else ""
    return f"{words}{wants}" if grad is None else f"{words}{wants} with {shown(grad)}"


class Fields:
    """The fields of objects as they were when they were last looked at."""

    def __init__(self, left_out: frozenset[str] = frozenset()) -> None:
        """Fields of these names are not looked at."""
        self._left_out = left_out
        self._known: dict[str, dict[str, str]] = {}

    def changes(self, objects: Mapping[str, Any]) -> list[str]:
        """The fields that are new, other than before, or gone, by the objects' names: some in a line."""
        with _disable_current_modes():  # which would be asked about each number that is read
            return [
                line for name, of in objects.items() for line in _lines(name, self._changes(name, vars(of)))
            ]

    def _changes(self, name: str, fields: Mapping[str, Any]) -> Iterator[str]:
        before = self._known.get(name, {})
        now = {key: shown(of) for key, of in fields.items() if key not in self._left_out}
        self._known[name] = now
        yield from (f"{key}={now[key]}" for key in sorted(now) if now[key] != before.get(key))
        yield from (f"no {key}" for key in sorted(before) if key not in now)


def _lines(name: str, changes: Iterator[str]) -> Iterator[str]:
    line = ""
    for change in changes:
        if line and len(line) + len(change) > WIDTH:
            yield f"{name}: {line}"
            line = ""
        line = f"{line}; {change}" if line else change
    if line:
        yield f"{name}: {line}"
