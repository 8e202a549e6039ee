"""``GuardSnapshot`` records all that a graph depends on beside the numbers in its tensors, as text by name.

A graph stays valid as long as a new snapshot is equal to the one of its trace. Plain values count by value,
functions and other callables by identity, tensors by their metadata (dtype, shape, ...), containers by their
contents. Of any other object only the type counts.
"""

from __future__ import annotations

import enum
import types
import weakref
from collections import deque
from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any

import torch

# A longer or more deeply nested container counts by its length, so that a data set that a step's code names
# costs nothing.
LONGEST = 1000
DEEPEST = 6
# The most differences that a message names.
SHOWN = 3

_PLAIN = (
    types.NoneType,
    types.EllipsisType,
    bool,
    int,
    float,
    complex,
    str,
    bytes,
    enum.Enum,
    torch.dtype,
    torch.device,
    torch.layout,
    torch.memory_format,
    torch.SymInt,
    torch.SymFloat,
    torch.SymBool,
)
_CONTAINERS = (list, tuple, set, frozenset, deque)


def is_plain(value: Any) -> bool:
    """Whether a value counts by value: a number, a string, None, a dtype and the like."""
    return isinstance(value, _PLAIN)


def tensor_words(tensor: torch.Tensor) -> str:
    """A tensor's metadata as text: ``float32[2, 10]``, and what is not the default of layout, stride, ..."""
    words = [f"{str(tensor.dtype).removeprefix('torch.')}{list(tensor.shape)}"]
    if tensor.layout is not torch.strided:
        words.append(str(tensor.layout).removeprefix("torch."))
    elif not tensor.is_contiguous():
        words.append(f"stride {tuple(tensor.stride())}")
    if tensor.device.type != "cpu":
        words.append(str(tensor.device))
    if tensor.requires_grad:
        words.append("requires grad")
    return " ".join(words)


class GuardSnapshot:
    """Values as text, by name. It keeps the objects alive that count by identity."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}
        self._kept: list[object] = []

    def note(self, name: str, value: Any) -> None:
        """Adds a value under a name."""
        self.values[name] = self._words(value, 0)

    def note_identity(self, name: str, value: object) -> None:
        """Adds an object that counts by identity, whatever its type."""
        self.values[name] = self._identity(value)

    def _words(self, value: Any, depth: int) -> str:
        if is_plain(value):
            return repr(value)
        if isinstance(value, torch.Tensor):
            return tensor_words(value)
        if isinstance(value, (*_CONTAINERS, Mapping)):
            return self._contents(value, depth)
        if isinstance(value, partial):
            return f"partial{self._words((value.func, value.args, value.keywords), depth + 1)}"
        if isinstance(value, types.MethodType):
            return f"{self._identity(value.__func__)} of {self._identity(value.__self__)}"
        seen_by_identity = callable(value) and not isinstance(value, weakref.ref)
        return self._identity(value) if seen_by_identity else type(value).__qualname__

    def _contents(self, value: Collection[Any], depth: int) -> str:
        kind = type(value).__name__
        if len(value) > LONGEST or depth >= DEEPEST:
            return f"{kind} of {len(value)}"
        items: Iterable[Any] = value.items() if isinstance(value, Mapping) else value
        words = [self._words(item, depth + 1) for item in items]
        return f"{kind}({', '.join(sorted(words) if isinstance(value, (set, frozenset)) else words)})"

    def _identity(self, value: object) -> str:
        # An object's id may be used again once the object is gone.
        self._kept.append(value)
        name = getattr(value, "__qualname__", type(value).__qualname__)
        return f"{name} at {id(value):#x}"

    def differences(self, later: GuardSnapshot, ignored: Collection[str] = ()) -> list[str]:
        """The entries that differ in ``later``, each as ``name: before -> after``."""
        found = []
        for name in dict.fromkeys([*self.values, *later.values]):
            before, after = self.values.get(name, "nothing"), later.values.get(name, "nothing")
            if before != after and name not in ignored:
                found.append(f"{name}: {before} -> {after}")
        return found


def shown(differences: list[str]) -> str:
    """The first few differences as text for a message of one line."""
    more = len(differences) - SHOWN
    return "; ".join(differences[:SHOWN]) + (f"; and {more} more" if more > 0 else "")
