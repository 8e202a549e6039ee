"""What a step has done to state otherwise than in place: written back where a graph can, else refused.

A graph changes the user's tensors in place and nothing else. A step that puts another tensor where a buffer
or a part of the optimizer's state was, has its graph copy the numbers; what it does to Python objects would
happen once, in the trace, and never again.
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
    """In a trace: copies what stands in a tensor's place now into the tensor that stood there before.

    UsageError where that cannot be: another shape, a state that did not exist or is gone, a parameter.
    """
    _check_same_names(before, after)
    moved = {name: tensor for name, tensor in after.items() if tensor is not before[name]}
    for name, tensor in moved.items():
        _check_can_be_copied(name, before[name], tensor)
    lifted = set(map(id, before.values()))
    with torch.no_grad():
        # One that is itself written to is copied first: two buffers may have changed places.
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
    """Where the tensors have their data; kept alive, so that no two places are called the same."""
    return {name: tensor.untyped_storage() for name, tensor in tensors.items()}


def check_storages(tensors: Mapping[str, Tensor], before: Mapping[str, Any]) -> None:
    """UsageError where a step has assigned to a tensor's ``data``, of which a trace knows nothing."""
    moved = [n for n, t in tensors.items() if t.untyped_storage()._cdata != before[n]._cdata]
    if moved:
        raise UsageError(f"the step assigns to the data of {', '.join(moved)}: change it in place")


def check_python_state(before: GuardSnapshot, after: GuardSnapshot) -> None:
    """UsageError where a step has changed anything that is no tensor."""
    changed = before.differences(after)
    if changed:
        raise UsageError(f"the step changes what is no tensor, which its graph will not: {shown(changed)}")


def generators() -> list[Any]:
    """The states of the random generators that draw while a step is traced, and not when its graph runs."""
    numpy = sys.modules.get("numpy")
    states: list[Any] = [random.getstate(), bytes(torch.get_rng_state().tolist())]
    if numpy is not None:
        _, numbers, position, *_ = numpy.random.get_state()
        states += [numbers.tobytes(), position]
    return states


def check_generators(before: list[Any]) -> None:
    """UsageError where a step has seeded a generator, or drawn from one of Python or numpy."""
    if generators() != before:
        raise UsageError(
            "the step seeds a random generator, or draws from Python's or numpy's: a graph draws from torch's"
        )
