"""``FreshInputs`` makes new copies of ``verify_aot``'s inputs for each eager and each compiled call."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from harness.errors import UsageError
from harness.graphs import module_restoring
from harness.graphs.aliasing import Named
from harness.graphs.hidden_memory import hidden_tensors
from harness.graphs.input_copies import Copier, Wrapper
from harness.graphs.leaf_names import joined, named_inputs, named_leaves
from harness.graphs.observation import PreparedCall
from harness.graphs.rebindings import bindings_of, module_tensors

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class FreshInputs:
    """Makes a ``PreparedCall`` for each call, from ``verify_aot``'s arguments of the same names.

    ``writable``: no argument that requires grad is a leaf. UsageError where the arguments contradict each
    other.
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
        self._grad = _requires_grad_by_id(inputs, requires_grad)

    @property
    def come_from_callable(self) -> bool:
        """Whether the user's callable makes the inputs; it may make different ones each time."""
        return callable(self._inputs)

    def prepare(self, function: Callable[..., Any], earlier: PreparedCall | None = None) -> PreparedCall:
        """New arguments for ``function``; a module is copied, and its tensors count as inputs.

        ``earlier``: a prepared call of ``function`` whose copy of the module is to be called again. The copy
        is restored to its state before that call.
        """
        copier = Copier(wrap=self._wrap, writable=self._writable, requires_grad=self._grad)
        own = function
        if isinstance(function, torch.nn.Module):
            own = copier.module(function) if earlier is None else _restored(function, earlier, copier)
        originals: Sequence[Any] = ()
        if callable(self._inputs):
            arguments, leaves = self._from_callable(function)
        else:
            originals = self._inputs
            arguments, leaves = copier.tree(list(originals)), []
        names = _names_of_originals(function, originals)
        leaves += [(names[id(original)], leaf) for original, leaf in copier.leaves]
        inputs = [*_tensors(named_inputs(function, arguments)), *module_tensors(own)]
        bindings = functools.partial(bindings_of, own, arguments)
        return PreparedCall(own, arguments, inputs, leaves, hidden_tensors(inputs, leaves), bindings)

    def _from_callable(self, function: Callable[..., Any]) -> tuple[Sequence[Any], list[Named]]:
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
        given = {id(leaf) for _, leaf in named}
        for name, tensor in _tensors(named_inputs(function, arguments)):
            if tensor.is_leaf and tensor.requires_grad and id(tensor) not in given:
                raise UsageError(
                    f"{name} that the callable inputs= makes is a leaf that requires grad and not one of the "
                    "leaves that it returns: return it there too, so that its gradient is compared"
                )
        return arguments, named


def can_be_called_again(function: Callable[..., Any], prepared: PreparedCall) -> bool:
    """Whether the copy of ``function`` in ``prepared`` can be restored to its state before its call."""
    return not isinstance(function, torch.nn.Module) or module_restoring.is_restorable(
        function, dict(prepared.inputs)
    )


def _restored(function: torch.nn.Module, earlier: PreparedCall, copier: Copier) -> torch.nn.Module:
    own = earlier.function
    assert isinstance(own, torch.nn.Module), "a module's copy is a module"
    module_restoring.restore(function, own, dict(earlier.inputs), copier)
    return own


def _requires_grad_by_id(
    inputs: Sequence[Any], requires_grad: bool | Sequence[bool] | None
) -> dict[int, bool]:
    """By the ``id`` of each tensor, whether its copy requires grad; UsageError where it cannot."""
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
    """The names by ``id`` of the inputs, of a module's tensors, and of the bases of those that are views."""
    named = [*_tensors(named_inputs(function, inputs)), *module_tensors(function)]
    by_base: dict[int, list[str]] = {}
    for name, tensor in named:
        if tensor._base is not None:
            by_base.setdefault(id(tensor._base), []).append(name)
    names = {base: f"the base of {joined(views)}" for base, views in by_base.items()}
    for name, tensor in reversed(named):  # a tensor that occurs twice has the name of its first place
        names[id(tensor)] = name
    return names


def _tensors(named: Sequence[tuple[str, Any]]) -> list[Named]:
    return [(name, value) for name, value in named if isinstance(value, torch.Tensor)]
