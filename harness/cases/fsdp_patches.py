"""Replaces what FSDP calls for a region of a test: collectives, and the steps of FSDP2's parameter groups.

A replacement is seen by every rank that is a thread of this process: all ranks meet before it is put in
place, so that each has read the original, and before the original is put back.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.fsdp._fully_shard import _fsdp_param_group
from torch.distributed.tensor import DTensor, Shard, distribute_tensor

from harness.models.fsdp import all_gather_name, reduce_scatter_name

__unittest = True  # unittest leaves this module's frames out of a failure's traceback

Patch = contextlib.AbstractContextManager[None]


@contextlib.contextmanager
def _replaced(owner: Any, name: str, replacement: Callable[..., Any]) -> Iterator[None]:
    original = vars(owner)[name]
    dist.barrier()
    setattr(owner, name, replacement)
    try:
        yield
        dist.barrier()
    finally:  # a rank that fails does not wait for the others
        setattr(owner, name, original)


def patch_all_gather(new_all_gather_into_tensor: Callable[..., Any]) -> Patch:
    """Replaces the all-gather of ``torch.distributed`` by which FSDP gathers parameters."""
    return _replaced(dist, all_gather_name(), new_all_gather_into_tensor)


def patch_reduce_scatter(new_reduce_scatter_tensor: Callable[..., Any]) -> Patch:
    """Replaces the reduce-scatter of ``torch.distributed`` by which FSDP reduces gradients."""
    return _replaced(dist, reduce_scatter_name(), new_reduce_scatter_tensor)


def patch_all_reduce(new_all_reduce: Callable[..., Any]) -> Patch:
    """Replaces ``all_reduce`` of ``torch.distributed``."""
    return _replaced(dist, "all_reduce", new_all_reduce)


def patch_foreach_all_gather(new_foreach_all_gather: Callable[..., Any]) -> Patch:
    """Replaces the function by which FSDP2 gathers the parameters of a group."""
    return _replaced(_fsdp_param_group, "foreach_all_gather", new_foreach_all_gather)


def patch_foreach_reduce(new_foreach_reduce: Callable[..., Any]) -> Patch:
    """Replaces the function by which FSDP2 reduces the gradients of a group."""
    return _replaced(_fsdp_param_group, "foreach_reduce", new_foreach_reduce)


def patch_unshard(new_unshard: Callable[..., Any]) -> Patch:
    """Replaces the method ``unshard`` of FSDP2's parameter groups."""
    return _replaced(_fsdp_param_group.FSDPParamGroup, "unshard", new_unshard)


def patch_reshard(new_reshard: Callable[..., Any]) -> Patch:
    """Replaces the method ``reshard`` of FSDP2's parameter groups."""
    return _replaced(_fsdp_param_group.FSDPParamGroup, "reshard", new_reshard)


def patch_post_backward(new_post_backward: Callable[..., Any]) -> Patch:
    """Replaces the method ``post_backward`` of FSDP2's parameter groups."""
    return _replaced(_fsdp_param_group.FSDPParamGroup, "post_backward", new_post_backward)


def patch_register_post_backward_hook_backward(new_backward: Callable[..., Any]) -> Patch:
    """Replaces the backward of the function by which FSDP2 learns that a module's backward is done."""
    return _replaced(_fsdp_param_group.RegisterPostBackwardFunction, "backward", new_backward)


def reduce_scatter_with_assert(
    cls: Any,
    orig_reduce_scatter: Callable[..., Any],
    assert_fn: Callable[[Tensor], object],
    *args: Any,
    **kwargs: Any,
) -> Any:
    """Calls ``assert_fn`` with the output tensor of a reduce-scatter, and then the reduce-scatter.

    For ``functools.partial`` and ``patch_reduce_scatter``; ``cls`` is not used. AssertionError where the call
    has no output tensor, as its first argument or as ``output``.
    """
    output = args[0] if args else kwargs.get("output")
    if output is None:
        raise AssertionError("the reduce-scatter was called without an output tensor")
    assert_fn(output)
    return orig_reduce_scatter(*args, **kwargs)


def check_sharded_parity(
    cls: Any,
    replicated_module: nn.Module,
    sharded_module: nn.Module,
    prefixes_to_ignore: tuple[str, ...] = (),
) -> None:
    """Fails unless this rank's shards are those of a replicated module, parameters and gradients by name.

    ``cls`` is the test case. ``prefixes_to_ignore`` are left out of the sharded module's names. Two mesh
    dimensions that shard dimension 0 are refused by an AssertionError: FSDP's layout of them is not that of
    ``distribute_tensor``.
    """
    pairs = zip(replicated_module.named_parameters(), sharded_module.named_parameters(), strict=True)
    for (name, whole), (sharded_name, shard) in pairs:
        for prefix in prefixes_to_ignore:
            sharded_name = sharded_name.replace(prefix, "")
        cls.assertEqual(sharded_name, name)
        _check_shard(cls, name, whole, shard)
        cls.assertEqual(shard.grad is None, whole.grad is None, f"whether {name} has a gradient")
        if whole.grad is not None:
            _check_shard(cls, f"{name}'s gradient", whole.grad, shard.grad)


def _check_shard(cls: Any, name: str, whole: Tensor, shard: Any) -> None:
    cls.assertIsInstance(shard, DTensor, f"{name} is no DTensor")
    if tuple(shard.placements) == (Shard(0), Shard(0)):
        raise AssertionError(f"{name} is sharded twice on dimension 0, in another order than can be compared")
    expected = distribute_tensor(whole.detach(), shard.device_mesh, shard.placements)
    cls.assertEqual(shard.to_local(), expected.to_local(), name)
