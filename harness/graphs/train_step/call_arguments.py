"""Splits the arguments of one train step's call into module, optimizer, tensors and plain values."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.utils._pytree import TreeSpec, keystr, tree_flatten_with_path, tree_unflatten

from harness.errors import UsageError
from harness.graphs.train_step.snapshots import GuardSnapshot, is_plain


@dataclass(frozen=True, slots=True)
class StepCall:
    """The arguments of one call of a train step.

    ``tensors`` are the distinct tensor arguments by name, in the order in which they first occur. ``leaves``
    are all arguments after flattening, each with its name.
    """

    module: nn.Module
    optimizer: Optimizer | None
    tensors: Mapping[str, Tensor]
    signature: inspect.Signature
    leaves: Sequence[tuple[str, Any]]
    spec: TreeSpec

    def run(self, function: Callable[..., Any], tensors: Sequence[Tensor]) -> Any:
        """Calls the user's function with ``tensors`` in place of the call's own tensors."""
        new = dict(zip(map(id, self.tensors.values()), tensors, strict=True))
        leaves = [new[id(leaf)] if isinstance(leaf, Tensor) else leaf for _, leaf in self.leaves]
        bound = inspect.BoundArguments(self.signature, tree_unflatten(leaves, self.spec))
        return function(*bound.args, **bound.kwargs)

    def describe(self, snapshot: GuardSnapshot) -> None:
        """Notes in ``snapshot`` all of the arguments that a graph depends on: not the numbers in tensors."""
        names = {id(tensor): name for name, tensor in self.tensors.items()}
        for name, leaf in self.leaves:
            if isinstance(leaf, nn.Module | Optimizer):
                snapshot.note_identity(f"argument {name}", leaf)
            else:
                snapshot.note(f"argument {name}", leaf)
            if names.get(id(leaf), name) != name:
                snapshot.note(f"argument {name} is", names[id(leaf)])


def read_call(signature: inspect.Signature, args: Sequence[Any], kwargs: Mapping[str, Any]) -> StepCall:
    """Sorts the arguments of a call into a ``StepCall``.

    Raises TypeError if the arguments do not fit the function, as calling it would. Raises UsageError unless
    there are exactly one module, at most one optimizer, and otherwise only plain values, functions and plain
    tensors that require no gradient, in any nesting of lists, tuples and dicts.
    """
    bound = signature.bind(*args, **kwargs)
    flat, spec = tree_flatten_with_path(dict(bound.arguments))
    leaves = [(_name(path), leaf) for path, leaf in flat]
    modules = _distinct(leaves, nn.Module)
    optimizers = _distinct(leaves, Optimizer)
    if len(modules) != 1:
        raise UsageError(
            f"a train step has one nn.Module among its arguments, not {_listed(modules)}: let it capture "
            "others, or make them one module"
        )
    if len(optimizers) > 1:
        raise UsageError(f"a train step has at most one optimizer, not {_listed(optimizers)}")
    call = StepCall(
        module=next(iter(modules.values())),
        optimizer=next(iter(optimizers.values()), None),
        tensors=_distinct(leaves, Tensor),
        signature=signature,
        leaves=leaves,
        spec=spec,
    )
    _check(call)
    return call


def _name(path: Sequence[Any]) -> str:
    return f"{path[0].key}{keystr(tuple(path[1:]))}"


def _distinct(leaves: Sequence[tuple[str, Any]], kind: type) -> dict[str, Any]:
    """The distinct leaves of one type, each by the name under which it first occurs."""
    first: dict[int, tuple[str, Any]] = {}
    for name, leaf in leaves:
        if isinstance(leaf, kind):
            first.setdefault(id(leaf), (name, leaf))
    return dict(first.values())


def _listed(found: Mapping[str, Any]) -> str:
    named = ", ".join(f"{name} ({type(value).__name__})" for name, value in found.items())
    return f"{len(found)}: {named}" if found else "none"


def _check(call: StepCall) -> None:
    own = {id(tensor) for tensor in [*call.module.parameters(), *call.module.buffers()]}
    for name, leaf in call.leaves:
        if isinstance(leaf, Tensor):
            _check_tensor(name, leaf, is_own=id(leaf) in own)
        elif not isinstance(leaf, nn.Module | Optimizer) and not is_plain(leaf) and not callable(leaf):
            raise UsageError(
                f"argument {name} is a {type(leaf).__qualname__}, which a graph cannot depend on: pass "
                "tensors, plain values and functions, in lists, tuples and dicts"
            )


def _check_tensor(name: str, tensor: Tensor, *, is_own: bool) -> None:
    if is_own:
        raise UsageError(f"argument {name} is the module's own: have the step take it from the module")
    if type(tensor) is not torch.Tensor and not isinstance(tensor, nn.Parameter | nn.Buffer):
        raise UsageError(f"argument {name} is a {type(tensor).__name__}: a train step takes plain tensors")
    if tensor.requires_grad:
        raise UsageError(
            f"argument {name} requires grad, which its backward would be for: pass it detached, and have the "
            "step return what torch.autograd.grad gives"
        )
