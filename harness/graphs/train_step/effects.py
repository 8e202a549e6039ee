"""Handles a step's side effects other than in-place changes: they are copied back in the graph, or refused.

A graph changes the user's tensors in place and nothing else. Where a step replaces a buffer or a part of the
optimizer's state by another tensor, the graph copies the numbers into the old tensor. Any other change to
Python objects is an error: it would happen once, during the trace, and never again.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from harness.errors import UsageError
from harness.graphs.train_step.snapshots import GuardSnapshot, shown, tensor_words


def write_back(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> None:
    """During a trace, copies each tensor that replaced another into the one that it replaced.

    Raises UsageError where that is impossible: if a shape or dtype changed, if state was created or removed,
    or if a parameter was replaced.
    """
    _check_same_names(before, after)
    moved = {name: tensor for name, tensor in after.items() if tensor is not before[name]}
    for name, tensor in moved.items():
        _check_can_be_copied(name, before[name], tensor)
    lifted = set(map(id, before.values()))
    with torch.no_grad():
        # A source that is itself a target is cloned first: two buffers may have been swapped.
        sources = {n: t.clone() if id(t) in lifted else t.detach() for n, t in moved.items()}
        for name, source in sources.items():
            before[name].detach().copy_(source)


def _check_same_names(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> None:
    created = [name for name in after if name not in before]
    if created:
        raise UsageError(
            f"the step creates {', '.join(created)}, which it would create again in each call: run one eager "
            "step and zero_grad() first, or give compile(warm_up=True)"
        )
    gone = [name for name in before if name not in after]
    if gone:
        raise UsageError(f"the step removes {', '.join(gone)}, which a graph cannot")


def _check_can_be_copied(name: str, before: Tensor, after: Tensor) -> None:
    if name.startswith("parameter "):
        raise UsageError(f"the step puts another tensor in the place of {name}: change it in place")
    if (before.shape, before.dtype) != (after.shape, after.dtype):
        raise UsageError(
            f"the step puts {tensor_words(after)} in the place of {name}, which is {tensor_words(before)}: a "
            "graph has one shape"
        )


def storages(tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """The storages of the tensors by name. Holding them keeps their addresses from being used again."""
    return {name: tensor.untyped_storage() for name, tensor in tensors.items()}


def check_storages(tensors: Mapping[str, Tensor], before: Mapping[str, Any]) -> None:
    """Raises UsageError if a step has assigned to a tensor's ``data``, which a trace does not record."""
    moved = [n for n, t in tensors.items() if t.untyped_storage()._cdata != before[n]._cdata]
    if moved:
        raise UsageError(f"the step assigns to the data of {', '.join(moved)}: change it in place")


def check_python_state(before: GuardSnapshot, after: GuardSnapshot) -> None:
    """Raises UsageError if a step has changed anything that is not a tensor."""
    changed = before.differences(after)
    if changed:
        raise UsageError(f"the step changes what is no tensor, which its graph will not: {shown(changed)}")


def generators() -> list[Any]:
    """The states of the random generators of Python, numpy and torch (CPU).

    A run of the graph would not repeat what a step draws from Python's or numpy's during the trace. Torch's
    changes during a trace only if the step seeds it.
    """
    numpy = sys.modules.get("numpy")
    states: list[Any] = [random.getstate(), bytes(torch.get_rng_state().tolist())]
    if numpy is not None:
        _, numbers, position, *_ = numpy.random.get_state()
        states += [numbers.tobytes(), position]
    return states


def check_generators(before: list[Any]) -> None:
    """Raises UsageError if a step has seeded a generator, or has drawn from Python's or numpy's."""
    if generators() != before:
        raise UsageError(
            "the step seeds a random generator, or draws from Python's or numpy's: a graph draws from torch's"
        )
