"""Replaces the tensors of a module and an optimizer by others for the time of a trace."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from harness.graphs.train_step.state import MODULE_TENSORS


@contextmanager
def put_back_after(module: nn.Module, optimizer: Optimizer | None) -> Iterator[None]:
    """On exit, restores the attributes of the module and the optimizer as they were on entry.

    The optimizer's private attributes (with an underscore) keep their new values, because learning-rate
    schedulers look there whether the optimizer has been called.
    """
    records: dict[str, Any] = {}
    owned: list[dict[str, Any]] = []
    for part in module.modules():
        owned += [vars(part), part._parameters, part._buffers, part._modules]
    if optimizer is not None:
        owned += [vars(optimizer), *optimizer.param_groups]
    before = [dict(each) for each in owned]
    try:
        yield
    finally:
        if optimizer is not None:
            records = {key: value for key, value in vars(optimizer).items() if key.startswith("_")}
        for each, content in zip(owned, before, strict=True):
            each.clear()
            each.update(content)
        if optimizer is not None:
            vars(optimizer).update(records)


def substitute(module: nn.Module, optimizer: Optimizer | None, new: Mapping[int, Tensor]) -> None:
    """Replaces tensors of the module and the optimizer; ``new`` is keyed by the ``id`` of the old tensor.

    ``put_back_after`` undoes it. Lists and dicts among a module's attributes are replaced by copies: a
    recurrent layer keeps its parameters in a list as well (pytorch/pytorch#90500, pytorch/pytorch#91111), and
    what a step appends to a list must not stay.
    """

    def in_place_of(old: Tensor) -> Tensor:
        return new.get(id(old), old)

    for part in module.modules():
        for own in (part._parameters, part._buffers):
            own.update({name: in_place_of(tensor) for name, tensor in own.items() if tensor is not None})
        for key, value in vars(part).items():
            if isinstance(value, (list, tuple, dict)) and key not in MODULE_TENSORS:
                vars(part)[key] = tree_map_only(Tensor, in_place_of, value)
    if optimizer is None:
        return
    state: defaultdict[Any, Any] = defaultdict(dict)
    for key, entries in optimizer.state.items():
        state[in_place_of(key)] = tree_map_only(Tensor, in_place_of, entries)
    optimizer.state = state
    for group in optimizer.param_groups:
        group["params"] = [in_place_of(parameter) for parameter in group["params"]]
