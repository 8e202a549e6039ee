"""Which inputs and outputs of a function share memory, are views of one base, or are the same object."""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from harness.graphs.subclasses import parts_of

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

Named = tuple[str, torch.Tensor]


@dataclass(frozen=True, slots=True)
class Aliases:
    """The names of the other inputs and outputs that a tensor is related to; the tensor itself is left out.

    ``memory``: they share a storage with it. ``views``: they have the same base in autograd, which may be the
    tensor itself; empty where the tensor does not require grad. ``same``: they are the same Python object.
    ``views`` and ``same`` are filled in for outputs only.
    """

    memory: tuple[str, ...]
    views: tuple[str, ...] = ()
    same: tuple[str, ...] = ()


def aliases_of(inputs: Sequence[Named], outputs: Sequence[Named]) -> dict[str, Aliases]:
    """The ``Aliases`` of each input and output by name; an input's among the inputs, an output's among all.

    Names are listed in the order of ``inputs``, then ``outputs``.
    """
    everyone = [*inputs, *outputs]
    among_inputs = {name: Aliases(_related(name, tensor, inputs, _share_memory)) for name, tensor in inputs}
    return among_inputs | {
        name: Aliases(
            memory=_related(name, output, everyone, _share_memory),
            views=_related(name, output, everyone, _share_base),
            same=_related(name, output, everyone, operator.is_),
        )
        for name, output in outputs
    }


def _related(
    name: str,
    output: torch.Tensor,
    everyone: Sequence[Named],
    related: Callable[[torch.Tensor, torch.Tensor], bool],
) -> tuple[str, ...]:
    return tuple(other for other, tensor in everyone if other != name and related(output, tensor))


def _share_memory(one: torch.Tensor, other: torch.Tensor) -> bool:
    return bool(storages(one) & storages(other))


def _share_base(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.requires_grad and base_of(one) is base_of(other)


def storages(tensor: torch.Tensor) -> set[Hashable]:
    """The storages that hold a tensor's data: none for a sparse tensor, several for a wrapper subclass."""
    if is_traceable_wrapper_subclass(tensor):
        return set().union(*map(storages, parts_of(tensor).tensors.values()))
    if tensor.layout != torch.strided:
        return set()
    return {tensor.untyped_storage()._cdata}


def base_of(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor that ``tensor`` is a view of for autograd, or ``tensor`` itself if it is not a view."""
    base = tensor._base
    return tensor if base is None else base


def overlaps_otherwise(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether some elements of two small tensors are at one place in memory, but not each with its like.

    What a write to one that reads the other gives depends on the order in which elements are worked off.
    """
    if not storages(one) & storages(other):
        return False
    alike = (one.shape, one.stride(), one.storage_offset()) == (
        other.shape,
        other.stride(),
        other.storage_offset(),
    )
    return not alike and bool(_places(one) & _places(other))


def _places(tensor: torch.Tensor) -> set[int]:
    """Where in its storage a tensor's elements are."""
    count = tensor.untyped_storage().nbytes() // tensor.element_size()
    return {
        *torch.arange(count)
        .as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())
        .flatten()
        .tolist()
    }
