"""Restores a copied module that was compiled and called to its state before the call.

A compiled function that is called a second time needs its module in the state of the first call.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn.parameter import is_lazy

from harness.graphs.input_copies import Copier
from harness.graphs.rebindings import VALUES, module_tensors
from harness.graphs.snapshots import snapshot

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def is_restorable(original: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> bool:
    """Whether the ``tensors`` of a called copy differ from the original's in nothing but values.

    ``tensors`` are those that the copy was made with, by name. A module with lazy or sparse tensors cannot be
    restored.
    """
    return all(
        not is_lazy(tensor)
        and tensor.layout == torch.strided
        and snapshot(tensor).metadata == snapshot(tensors[name]).metadata
        for name, tensor in module_tensors(original)
    )


def restore(
    original: torch.nn.Module, copy: torch.nn.Module, tensors: Mapping[str, torch.Tensor], copier: Copier
) -> None:
    """Give ``copy`` back its ``tensors``, with the values and plain attributes of ``original``.

    The tensors must be the same objects as before, because the compiler may have kept them. They are
    registered with ``copier`` as the copies of the original's tensors. Plain attributes (numbers, strings)
    are restored because a call may count or switch with them.
    """
    for name, tensor in module_tensors(original):
        _, _, path = name.partition(" ")
        owner, _, attribute = path.rpartition(".")
        holder = copy.get_submodule(owner)
        if getattr(holder, attribute, None) is not tensors[name]:
            setattr(holder, attribute, tensors[name])
        copier.reuse(tensor, tensors[name])
    for one, other in zip(original.modules(), copy.modules(), strict=False):
        vars(other).update({name: value for name, value in vars(one).items() if isinstance(value, VALUES)})
