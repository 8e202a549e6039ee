"""Collects the state of a module and an optimizer: its tensors become graph inputs, the rest is noted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import keystr, tree_flatten_with_path

from harness.graphs.train_step.hyperparameters import describe_hyperparameters
from harness.graphs.train_step.snapshots import GuardSnapshot

# Attributes of a module and of an optimizer that are not noted like other attributes, because their contents
# are lifted or noted in another way.
MODULE_TENSORS = ("_parameters", "_buffers", "_modules")
_OPTIMIZER_TENSORS = ("state", "param_groups")
_OPTIMIZER_HOOKS = ("_optimizer_step_pre_hooks", "_optimizer_step_post_hooks")


def lift_state(module: nn.Module, optimizer: Optimizer | None) -> dict[str, Tensor]:
    """The tensors of a module and its optimizer by name, in the order in which a graph takes them.

    Parameters come first, then buffers, each under all of its names, then the optimizer's state in the order
    of the module's parameters.
    """
    lifted = {f"parameter {n}": t for n, t in module.named_parameters(remove_duplicate=False)}
    lifted |= {f"buffer {n}": t for n, t in module.named_buffers(remove_duplicate=False)}
    return lifted | {n: leaf for n, leaf in state_leaves(module, optimizer) if isinstance(leaf, Tensor)}


def describe_lifted(lifted: Mapping[str, Tensor], snapshot: GuardSnapshot) -> None:
    """Notes the metadata of each lifted tensor, and which names stand for the same tensor."""
    first: dict[int, str] = {}
    for name, tensor in lifted.items():
        snapshot.note(name, tensor)
        if first.setdefault(id(tensor), name) != name:
            snapshot.note(f"{name} is", first[id(tensor)])


def state_leaves(module: nn.Module, optimizer: Optimizer | None) -> Iterator[tuple[str, Any]]:
    """Yields the names and leaves of the optimizer's state, parameter by parameter."""
    for name, parameter in module.named_parameters() if optimizer else ():
        entries = optimizer.state.get(parameter, {}) if optimizer else {}
        for path, leaf in tree_flatten_with_path(dict(entries))[0]:
            yield f"optimizer state {name}.{_key(path)}", leaf


def _key(path: Sequence[Any]) -> str:
    return f"{path[0].key}{keystr(tuple(path[1:]))}"


def describe_module(module: nn.Module, snapshot: GuardSnapshot, called: str = "module") -> None:
    """Notes the structure of a module and the attributes (training, hooks, constants) of all its parts."""
    for name, part in module.named_modules():
        where = f"{called} {name}" if name else called
        snapshot.note(f"class of {where}", type(part))
        for key, value in vars(part).items():
            if key not in MODULE_TENSORS:
                snapshot.note(f"{where} {key}", value)


def describe_optimizer(module: nn.Module, optimizer: Optimizer, snapshot: GuardSnapshot) -> None:
    """Notes an optimizer's attributes, param groups, hyper-parameters and state other than tensors."""
    snapshot.note("class of optimizer", type(optimizer))
    for key, value in vars(optimizer).items():
        if key in _OPTIMIZER_HOOKS or not (key.startswith("_") or key in _OPTIMIZER_TENSORS):
            snapshot.note(f"optimizer {key}", value)
    names = {id(parameter): name for name, parameter in module.named_parameters()}
    for index, group in enumerate(optimizer.param_groups):
        snapshot.note(f"optimizer group {index} params", [names.get(id(p), "?") for p in group["params"]])
    describe_hyperparameters(optimizer, snapshot)
    for name, leaf in state_leaves(module, optimizer):
        if not isinstance(leaf, Tensor):
            snapshot.note(name, leaf)


def describe_modes(snapshot: GuardSnapshot) -> None:
    """Notes the modes that change what operators do: grad mode, autocast, default dtype, default device."""
    snapshot.note("grad mode", torch.is_grad_enabled())
    for kind in sorted({"cpu", torch.get_default_device().type, _accelerator()}):
        if not torch.amp.is_autocast_available(kind):  # meta, for example
            continue
        on = torch.is_autocast_enabled(kind)
        snapshot.note(f"autocast on {kind}", torch.get_autocast_dtype(kind) if on else None)
    snapshot.note("default dtype", torch.get_default_dtype())
    snapshot.note("default device", torch.get_default_device())


def _accelerator() -> str:
    current = torch.accelerator.current_accelerator()
    return "cpu" if current is None else str(current.type)
