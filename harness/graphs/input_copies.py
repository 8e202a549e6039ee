"""``Copier`` makes independent copies of inputs that alias each other as the originals do.

Tensors that share a storage share one in the copy. The copy of a view is a view of the copy of its base, made
by the same operations. A tensor that occurs twice is copied once. So a function meets the same aliasing in
the copies as in the inputs, and cannot change the inputs by writing to the copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from copy import deepcopy
from itertools import chain
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._python_dispatch import is_traceable_wrapper_subclass
from torch.utils._pytree import tree_map_only

from harness.errors import UsageError
from harness.graphs.subclasses import parts_of

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

Wrapper = Callable[[torch.Tensor], torch.Tensor]


class Copier:
    """Makes one set of copies that keep the aliasing of their originals.

    ``wrap`` makes a tensor of the wanted subclass from a plain one. With ``writable`` no copy that requires
    grad is a leaf, so that a function may write to it. ``requires_grad`` says by the ``id`` of an original
    whether its copy requires grad; the other copies do as their originals do. ``leaves`` lists pairs of an
    original and the leaf that receives its gradient: its copy, or the tensor that the copy was computed from.

    None of these options applies to a module's own tensors. Call ``module`` before ``tree``.
    """

    def __init__(
        self,
        *,
        wrap: Wrapper | None = None,
        writable: bool = False,
        requires_grad: Mapping[int, bool] | None = None,
    ) -> None:
        self.leaves: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._requires_grad = requires_grad or {}
        self._wrap = wrap
        self._writable = writable
        # By identity; the original is kept beside the copy so that its identity stays taken.
        self._copies: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}
        self._storages: dict[int, torch.UntypedStorage] = {}
        # A module's tensors and what they are views of, by identity.
        self._own: set[int] = set()

    def module(self, original: torch.nn.Module) -> torch.nn.Module:
        """A copy of the module, whose parameters and buffers alias the other copies as the originals do.

        Parameters that have no size yet are copied by ``copy.deepcopy``, and so is everything that is neither
        a parameter nor a buffer.
        """
        named = chain(original.parameters(), original.buffers())
        tensors = [tensor for tensor in named if not is_lazy(tensor)]
        for tensor in tensors:
            self._own |= {id(each) for each in (tensor, tensor._base) if each is not None}
        return deepcopy(original, {id(tensor): self.tensor(tensor) for tensor in tensors})

    def reuse(self, original: torch.Tensor, copied: torch.Tensor) -> None:
        """Use ``copied``, which another Copier made from ``original``, a module's tensor, as the copy of it.

        Its values are set to the original's again. The two must be alike in everything but values.
        """
        for one, other in ((original._base, copied._base), (original, copied)):
            if one is not None and other is not None:
                self._own.add(id(one))
                self._copies[id(one)] = (one, other)
        for here, there in zip(_plain_parts(original), _plain_parts(copied), strict=True):
            storage = self._storages[here.untyped_storage()._cdata] = there.untyped_storage()
            storage.copy_(here.untyped_storage())
        if original.is_leaf and original.requires_grad:
            self.leaves.append((original, copied))

    def tree(self, value: Any) -> Any:
        """``value``, a container of any depth, with its tensors copied and all other leaves passed on."""
        return tree_map_only(torch.Tensor, self.tensor, value)

    def tensor(self, original: torch.Tensor) -> torch.Tensor:
        """The copy of ``original``; UsageError if its shape, dtype, type or requires_grad would be wrong."""
        if id(original) not in self._copies:
            made = self._view(original) if self._remains_view(original) else self._base(original)
            self._require_alike(original, made)
            self._copies[id(original)] = (original, made)
        return self._copies[id(original)][1]

    def _remains_view(self, original: torch.Tensor) -> bool:
        """Whether the copy of ``original`` is also a view for autograd.

        It cannot be one if it has to require grad while its base does not, and ``requires_grad`` asked for
        that or the copy has to be writable: such a view could only be a leaf.
        """
        base = original._base
        if base is None or self._wanted(base):
            return base is not None
        if id(original) in self._own:
            return True
        asked = self._requires_grad.get(id(original), False)
        return not (asked or (self._writable and self._wanted(original)))

    def _view(self, original: torch.Tensor) -> torch.Tensor:
        base = original._base
        assert base is not None, "a view has a base"
        copied_base = self.tensor(base)
        # A view of a base that requires grad is computed from it, unless it was taken under no_grad.
        under_no_grad = copied_base.requires_grad and original.is_leaf
        with torch.no_grad() if under_no_grad else nullcontext():
            copy: torch.Tensor = original._view_func_unsafe(copied_base)
        if copy.requires_grad and not self._wanted(original):
            copy = copy.detach()
        if self._wanted(original) and not copy.requires_grad:
            copy.requires_grad_()
            self.leaves.append((original, copy))
        return copy

    def _base(self, original: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            copy = self._plain(original)
            wrap = None if id(original) in self._own else self._wrap
            if wrap is not None and not is_traceable_wrapper_subclass(copy):
                copy = wrap(copy).detach()
        if isinstance(original, torch.nn.Parameter):
            copy = torch.nn.Parameter(copy, requires_grad=self._wanted(original))
        if not self._wanted(original):
            return copy
        if original.is_leaf and (id(original) in self._own or not self._writable):
            copy.requires_grad_()
            self.leaves.append((original, copy))
            return copy
        leaf = copy.detach().clone().requires_grad_()
        self.leaves.append((original, leaf))
        placed: torch.Tensor = _Place.apply(leaf, copy)
        return placed

    def _plain(self, original: torch.Tensor) -> torch.Tensor:
        """A copy that autograd does not track, in the copied storage."""
        if is_traceable_wrapper_subclass(original):
            parts = parts_of(original)
            inside = {name: self._plain(part) for name, part in parts.tensors.items()} | parts.others
            rebuild = type(original).__tensor_unflatten__
            wrapper: torch.Tensor = rebuild(inside, parts.context, original.size(), original.stride())
            return wrapper.detach()
        if original.layout != torch.strided or original.is_quantized:
            return original.detach().clone()
        copy = torch.empty(0, dtype=original.dtype, device=original.device)
        copy.set_(self._storage(original), original.storage_offset(), original.size(), original.stride())
        if (held := original.untyped_storage().nbytes()) < copy.untyped_storage().nbytes():
            copy.untyped_storage().resize_(
                held
            )  # a tensor whose data was given up; set_ has made room for it
        if original.is_conj():
            copy = copy.conj()
        if original.is_neg():
            copy = torch._neg_view(copy)
        return (
            copy if type(original) in (torch.Tensor, torch.nn.Parameter) else copy.as_subclass(type(original))
        )

    def _storage(self, original: torch.Tensor) -> torch.UntypedStorage:
        storage = original.untyped_storage()
        if storage._cdata not in self._storages:
            self._storages[storage._cdata] = storage.clone()
        return self._storages[storage._cdata]

    def _wanted(self, original: torch.Tensor) -> bool:
        asked = {} if id(original) in self._own else self._requires_grad
        return asked.get(id(original), original.requires_grad)

    def _require_alike(self, original: torch.Tensor, copy: torch.Tensor) -> None:
        wrapped = self._wrap is not None and id(original) not in self._own
        said = [
            f"{name} {found} for {wanted}"
            for name, found, wanted in (
                ("shape", tuple(copy.shape), tuple(original.shape)),
                ("dtype", copy.dtype, original.dtype),
                ("requires_grad", copy.requires_grad, self._wanted(original)),
                ("type", type(copy), type(copy) if wrapped else type(original)),
            )
            if found != wanted
        ]
        if said:
            raise UsageError(
                f"an input cannot be copied ({', '.join(said)}): "
                "give a callable that makes (leaves, arguments) anew"
            )


def _plain_parts(tensor: torch.Tensor) -> list[torch.Tensor]:
    """The tensors that hold the data: the parts of a wrapper subclass, or the tensor itself."""
    if is_traceable_wrapper_subclass(tensor):
        return [plain for part in parts_of(tensor).tensors.values() for plain in _plain_parts(part)]
    return [tensor]


class _Place(torch.autograd.Function):  # type: ignore[misc]  # torch is untyped to mypy here
    """Returns ``target``, which holds the leaf's values, as a tensor that autograd computes from the leaf.

    A plain ``leaf.clone()`` would have a new storage and lose the aliasing of the original.
    """

    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return target.detach()

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return gradients[0], None
