"""Finds what a faulty compiled function may overwrite beside its inputs: memory around views, and leaves.

A view shows a part of its storage. If a compiled function writes beside it, its caller finds that out later.
The leaves are those that the arguments were computed from.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from harness.graphs.aliasing import Named
from harness.graphs.snapshots import reach

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


def hidden_tensors(inputs: Sequence[Named], leaves: Sequence[Named]) -> list[Named]:
    """A flat tensor of each storage of which the inputs show only a part, and the leaves that are not inputs.

    A storage that is shared by inputs of several dtypes is left out.
    """
    by_storage: dict[int, list[Named]] = {}
    for name, tensor in inputs:
        if _is_plain(tensor):
            by_storage.setdefault(tensor.untyped_storage()._cdata, []).append((name, tensor))
    found = [flat for sharing in by_storage.values() for flat in _hidden(sharing)]
    given = {id(tensor) for _, tensor in inputs}
    named = {name for name, _ in inputs}
    for name, leaf in leaves:
        if id(leaf) not in given:
            found.append((f"the leaf behind {name}" if name in named else name, leaf))
    return found


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether the tensor's data lies in one storage that can be read."""
    return not (
        is_lazy(tensor)
        or is_traceable_wrapper_subclass(tensor)
        or tensor.layout != torch.strided
        or tensor.is_quantized
        or tensor.is_meta
    )


def _hidden(sharing: Sequence[Named]) -> list[Named]:
    """The storage that the tensors share, as a flat tensor, if they do not show all of it."""
    name, first = sharing[0]
    storage = first.untyped_storage()
    count = storage.nbytes() // first.element_size()
    if len({tensor.dtype for _, tensor in sharing}) > 1:
        return []
    if any(tensor.numel() == count and tensor.is_contiguous() for _, tensor in sharing):
        return []  # the usual case
    shown = torch.zeros(count, dtype=torch.bool)
    for _, tensor in sharing:
        if reach(tensor) <= count:  # a storage whose data was given up is shorter
            shown.as_strided(tensor.size(), tensor.stride(), tensor.storage_offset()).fill_(True)
    if shown.all():
        return []
    with torch.no_grad():
        flat = torch.empty(0, dtype=first.dtype, device=first.device)
        flat.set_(storage, 0, (count,))
    return [(f"the memory around {name}", flat)]
