"""``DTensorConverter``: converts an operator's arguments to DTensors, in every sharding that is possible."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.distributed._local_tensor import LocalTensor
from torch.distributed.tensor import DeviceMesh, Placement, Replicate, Shard, distribute_tensor
from torch.overrides import is_tensor_like
from torch.utils._pytree import tree_flatten, tree_unflatten

from harness.errors import UsageError

# Tensors of these types hold plain data. The data of other subclasses has another meaning, which sharding
# it would lose.
_PLAIN = (torch.Tensor, torch.nn.Parameter, LocalTensor)
# Devices on which a tensor has no data to shard.
_DATALESS = frozenset({"lazy", "meta"})


class DTensorConverter:
    """Iterates over (args, kwargs) with each tensor among them distributed over ``mesh``.

    There is one step for each combination of the placements that ``gen_sharding_choices_for_arg`` gives for
    each tensor; the last tensor's varies fastest. ``hit`` counts the tensors that were distributed, ``miss``
    those that were not because DTensor does not support their kind. Source of the contract:
    ``torch.testing._internal.distributed._tensor.common_dtensor.DTensorConverter``.
    """

    def __init__(
        self,
        mesh: DeviceMesh,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        replicate_only: bool = False,
    ) -> None:
        self.hit, self.miss = 0, 0
        self.mesh, self.replicate_only = mesh, replicate_only
        self.args, self.kwargs = args, kwargs
        self.flatten_args, self.flatten_args_spec = tree_flatten(args)
        self.flatten_kwargs, self.flatten_kwargs_spec = tree_flatten(kwargs)
        leaves = (*self.flatten_args, *self.flatten_kwargs)
        choices = [self.gen_sharding_choices_for_arg(a) for a in leaves if isinstance(a, torch.Tensor)]
        self.sharding_combs: Iterator[Sequence[Placement]] = itertools.product(*choices)

    def successful(self) -> bool:
        """Whether there was a tensor, and every tensor so far was distributed."""
        return self.hit > 0 and self.miss == 0

    def is_supported_tensor(self, t: torch.Tensor) -> bool:
        """Whether DTensor supports this kind: strided data in memory, not a negated or conjugated view."""
        odd_layout = t.is_sparse or t.is_sparse_csr or t.is_mkldnn or t.is_nested or t.is_quantized
        odd_view = t.is_neg() or t.is_conj() or torch._is_functional_tensor(t)
        return not (odd_layout or odd_view or t.device.type in _DATALESS)

    def gen_sharding_choices_for_arg(self, arg: torch.Tensor) -> Sequence[Placement]:
        """Replicate, and Shard on each dimension that the mesh divides evenly.

        Booleans are only replicated, because collectives do not accept them.
        """
        if self.replicate_only or arg.dtype == torch.bool:
            return [Replicate()]
        ranks = self.mesh.size()
        even = [dim for dim, size in enumerate(arg.shape) if size > 1 and size % ranks == 0]
        return [Replicate(), *map(Shard, even)]

    def __iter__(self) -> DTensorConverter:
        return self

    def __next__(self) -> tuple[tuple[object, ...], dict[str, object]]:
        chosen = iter(next(self.sharding_combs))
        args = [self._converted(leaf, chosen) for leaf in self.flatten_args]
        kwargs = [self._converted(leaf, chosen) for leaf in self.flatten_kwargs]
        return tree_unflatten(args, self.flatten_args_spec), tree_unflatten(kwargs, self.flatten_kwargs_spec)

    def _converted(self, leaf: Any, chosen: Iterator[Placement]) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        others = [Replicate()] * (self.mesh.ndim - 1)
        return self.to_dist_tensor(leaf, self.mesh, [next(chosen), *others])

    def to_dist_tensor(self, t: torch.Tensor, mesh: DeviceMesh, placements: list[Placement]) -> torch.Tensor:
        """``t`` distributed by ``placements``; a tensor without dimensions is replicated.

        Returns ``t`` itself where ``is_supported_tensor`` is False or its type is a subclass with another
        meaning. UsageError for an object that is not a tensor.
        """
        if not is_tensor_like(t):
            raise UsageError(f"only a tensor can be distributed, not {type(t).__name__}")
        if type(t) not in _PLAIN or not self.is_supported_tensor(t):
            self.miss += 1
            return t
        self.hit += 1
        distributed = distribute_tensor(t, mesh, placements if t.ndim else [Replicate()] * mesh.ndim)
        if isinstance(t, torch.nn.Parameter):
            return torch.nn.Parameter(distributed, requires_grad=distributed.requires_grad)
        return distributed
