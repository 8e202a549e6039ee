"""``Grounds``: what each side of a verification runs on, made anew for each side and each run."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from harness.errors import UsageError
from harness.graphs.aliasing import Named
from harness.graphs.copies import Copier, Wrapper
from harness.graphs.naming import joined, named_inputs, named_leaves
from harness.graphs.observation import Ground
from harness.graphs.places import module_tensors, places_of
from harness.graphs.surroundings import around

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class Grounds:
    """Makes ``Ground``s from ``verify_aot``'s arguments of the same names.

    ``writable``: no argument that requires grad is a leaf. UsageError where they do not fit together.
    """

    def __init__(
        self,
        inputs: Any,
        *,
        requires_grad: bool | Sequence[bool] | None = None,
        subclasses: Any = None,
        writable: bool = False,
    ) -> None:
        self._inputs = inputs
        self._writable = writable
        self._wrap: Wrapper | None = None
        self._mode: Callable[[], contextlib.AbstractContextManager[Any]] = contextlib.nullcontext
        self._grad: dict[int, bool] = {}
        is_mode = isinstance(subclasses, type) and hasattr(subclasses, "__enter__")
        if callable(inputs):
            if requires_grad is not None:
                raise UsageError("requires_grad= is for a list of inputs: let the callable make them so")
            if subclasses is not None and not is_mode:
                raise UsageError(
                    "inputs is a callable: subclasses= has to be a context manager class, within which it "
                    "makes tensors of the subclass"
                )
            self._mode = subclasses or self._mode
            return
        if not isinstance(inputs, (list, tuple)):
            raise UsageError(
                f"inputs is a {type(inputs).__name__}: give a list of the function's arguments, or a "
                "callable that makes (leaves, arguments)"
            )
        if subclasses is not None and (is_mode or not callable(subclasses)):
            raise UsageError(
                "inputs is a list: subclasses= has to be a function that makes a subclass tensor of a tensor"
            )
        self._wrap = subclasses
        self._grad = _requirements(inputs, requires_grad)

    def make(self, function: Callable[..., Any]) -> Ground:
        """New arguments for ``function``; a module's own parameters and buffers are part of the ground."""
        arguments, leaves = self._made() if callable(self._inputs) else self._copied(function)
        own = module_tensors(function)
        inputs = [*_tensors(named_inputs(function, arguments)), *own]
        leaves += [
            (name, value) for name, value in own if name.startswith("parameter") and value.requires_grad
        ]
        return Ground(
            arguments,
            inputs,
            leaves,
            around(inputs, leaves),
            functools.partial(places_of, function, arguments),
        )

    def _made(self) -> tuple[Sequence[Any], list[Named]]:
        with self._mode():
            made = self._inputs()
        if not (isinstance(made, tuple) and len(made) == 2 and isinstance(made[1], (list, tuple))):
            raise UsageError("the callable inputs= has to return a pair (leaves, list of arguments)")
        leaves, arguments = made
        named = [(n, leaf) for n, leaf in _tensors(named_leaves("leaf ", leaves)) if leaf.requires_grad]
        for name, leaf in named:
            if not (leaf.is_leaf or leaf.retains_grad):
                raise UsageError(
                    f"{name} that the callable inputs= makes is computed, so that no gradient arrives in it: "
                    "name the tensor that it is computed from, or call its retain_grad()"
                )
        return arguments, named

    def _copied(self, function: Callable[..., Any]) -> tuple[Sequence[Any], list[Named]]:
        copier = Copier(wrap=self._wrap, writable=self._writable, requires_grad=self._grad)
        arguments = copier.tree(list(self._inputs))
        names = _names_of_originals(function, self._inputs)
        return arguments, [(names[id(original)], leaf) for original, leaf in copier.leaves]


def _requirements(inputs: Sequence[Any], requires_grad: bool | Sequence[bool] | None) -> dict[int, bool]:
    """By identity of the tensor, whether its copy requires grad; UsageError where it cannot."""
    if requires_grad is None:
        return {}
    if not isinstance(requires_grad, (bool, list, tuple)):
        raise UsageError(f"requires_grad={requires_grad!r}: give True, False, or a list of these")
    tensors = [leaf for leaf in tree_leaves(list(inputs)) if isinstance(leaf, torch.Tensor)]
    wanted = [requires_grad] * len(tensors) if isinstance(requires_grad, bool) else list(requires_grad)
    if len(wanted) != len(tensors):
        raise UsageError(f"requires_grad has {len(wanted)} values for {len(tensors)} tensors")
    for number, (tensor, value) in enumerate(zip(tensors, wanted, strict=True)):
        if value and not (tensor.is_floating_point() or tensor.is_complex()):
            raise UsageError(
                f"tensor {number} of the inputs is {str(tensor.dtype).removeprefix('torch.')} and cannot "
                "require grad: give requires_grad= a value for each tensor, or a floating or complex tensor"
            )
    return {id(tensor): value for tensor, value in zip(tensors, wanted, strict=True)}


def _names_of_originals(function: Callable[..., Any], inputs: Sequence[Any]) -> dict[int, str]:
    """Names of the inputs and of the bases of those that are views, by identity."""
    named = _tensors(named_inputs(function, inputs))
    by_base: dict[int, list[str]] = {}
    for name, tensor in named:
        if tensor._base is not None:
            by_base.setdefault(id(tensor._base), []).append(name)
    names = {base: f"the base of {joined(views)}" for base, views in by_base.items()}
    for name, tensor in reversed(named):  # what occurs twice is called by its first place
        names[id(tensor)] = name
    return names


def _tensors(named: Sequence[tuple[str, Any]]) -> list[Named]:
    return [(name, value) for name, value in named if isinstance(value, torch.Tensor)]
