"""A module that was compiled, as it was before its call: for another one."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch.nn.parameter import is_lazy

from harness.graphs.copies import Copier
from harness.graphs.rebindings import VALUES, module_tensors
from harness.graphs.snapshots import snapshot

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def is_restorable(original: torch.nn.Module, tensors: Mapping[str, torch.Tensor]) -> bool:
    """Whether a copy's ``tensors`` are still what the original's are, but for their values."""
    return all(
        not is_lazy(tensor)
        and tensor.layout == torch.strided
        and snapshot(tensor).metadata == snapshot(tensors[name]).metadata
        for name, tensor in module_tensors(original)
    )


def restore(
    original: torch.nn.Module, copy: torch.nn.Module, tensors: Mapping[str, torch.Tensor], copier: Copier
) -> None:
    """Make ``copy`` what it was: of the same ``tensors``, with the original's values and plain attributes.

    The compiler may have kept the tensors, so that no others can stand for them. To ``copier`` they are the
    copies of the original's. Plain attributes are what a call may count or switch with.
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
