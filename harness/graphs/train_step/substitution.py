"""Other tensors in the places of a module's and an optimizer's, for the time of a trace."""

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
    """A region after which both hold what they held before, whatever was assigned to their attributes.

    But for an optimizer's own records (with an underscore): that it has been called is what schedulers ask.
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
    """Puts ``new`` in, by the identity of the tensors that they replace. Undone by ``put_back_after``.

    Lists and dicts among a module's attributes are exchanged for copies: a recurrent layer has its parameters
    in a list as well, and what a step appends to one is not to stay there.
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
