"""Trains a module with FSDP1 in a rank; scripts contain this text. The reference is that of FSDP2's programs.

After each step the whole parameters are gathered, and the whole gradients where the parameters are the
module's own (``use_orig_params``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import (
    BackwardPrefetch,
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
)

from harness.fuzzing.fsdp.meshes import Meshes, carry_over, meshes_of
from harness.fuzzing.fsdp.training import (
    EVALUATION,
    LIMIT,
    NORM,
    Steps,
    average_gradient,
    built,
    compare,
    emptied,
    optimizer_of,
    without_fsdp,
)
from harness.fuzzing.training import State, backward, batch, states

# What FSDP1 puts into the names of a module that it has wrapped.
WRAPPED = "_fsdp_wrapped_module."


def wrapped(
    module: nn.Module, mesh: DeviceMesh, units: Sequence[str], ignored: Sequence[str], options: dict[str, Any]
) -> FullyShardedDataParallel:
    """Wraps the units of a module, in place, and returns the module wrapped."""
    given: dict[str, Any] = {
        "device_mesh": mesh,
        "device_id": torch.device("cpu"),
        "use_orig_params": options.get("orig", False),
        "sharding_strategy": ShardingStrategy[options.get("strategy", "FULL_SHARD")],
        "limit_all_gathers": not options.get("unlimited"),
        "forward_prefetch": options.get("forward_prefetch", False),
        "ignored_states": [each for name in ignored for each in module.get_submodule(name).parameters()],
    }
    if "prefetch" in options:
        given["backward_prefetch"] = BackwardPrefetch[options["prefetch"]] if options["prefetch"] else None
    if "dtype" in options:
        dtype, reduce = getattr(torch, options["dtype"]), options.get("reduce")
        given["mixed_precision"] = MixedPrecision(dtype, None if reduce is None else getattr(torch, reduce))
    for name in units:
        unit = module.get_submodule(name)
        if not isinstance(unit, FullyShardedDataParallel):  # else by another name
            parents = list(module.modules())
            fsdp = FullyShardedDataParallel(unit, **given)
            for parent in parents:
                for own, child in parent._modules.items():
                    if child is unit:
                        setattr(parent, own, fsdp)
    return FullyShardedDataParallel(module, **given)


def with_fsdp1(
    model: Callable[[], nn.Module],
    mesh: DeviceMesh,
    units: Sequence[str],
    ignored: Sequence[str],
    options: dict[str, Any],
    steps: Steps,
    optimizer: str,
) -> Iterator[State]:
    """Yields the whole parameters and gradients, and this rank's buffers, after each of its steps."""
    rank, orig = torch.distributed.get_rank(), options.get("orig", False)
    dtype = torch.float32 if options.get("single") else torch.float64
    module = wrapped(built(model, options), mesh, units, ignored, options)
    optim = optimizer_of(module, optimizer, not ignored)
    for step, (batches, way, keeps, evaluates, restores, clips) in enumerate(steps):
        if restores:
            before = module, optim
            module = wrapped(emptied(built(model, options)), mesh, units, ignored, options)
            optim = optimizer_of(module, optimizer, not ignored)
            carry_over(before, (module, optim), restores)
        optim.zero_grad(set_to_none=not keeps)
        if evaluates:
            with torch.no_grad():
                module(batch(rank, step, EVALUATION).to(dtype))
        for number in range(batches):
            synced = number + 1 == batches or way == "each"
            with contextlib.nullcontext() if synced else module.no_sync():
                backward(module, batch(rank, step, number).to(dtype))
        for name, parameter in module.named_parameters():  # FSDP leaves those ignored to the user
            if name.replace(WRAPPED, "").rpartition(".")[0] in ignored:
                average_gradient(parameter)
        norm = {NORM: module.clip_grad_norm_(LIMIT)} if clips else {}
        optim.step()
        with FullyShardedDataParallel.summon_full_params(module, writeback=False, with_grads=orig):
            found = states(module)
        yield {name.replace(WRAPPED, ""): value for name, value in found.items()} | norm


def check_fsdp1(
    model: Callable[[], nn.Module],
    shape: Sequence[int],
    units: Sequence[str],
    ignored: Sequence[str],
    options: dict[str, Any],
    steps: Steps,
    optimizer: str,
    kept: Meshes | None = None,
) -> None:
    """Trains in both ways in a rank; AssertionError where it has something else. ``kept`` are meshes."""
    mesh = meshes_of(shape, (), {} if kept is None else kept)[0]
    found = list(with_fsdp1(model, mesh, units, ignored, options, steps, optimizer))
    expected = without_fsdp(model, mesh.size(), options, steps, optimizer, ignored)

    def part(_: int, name: str, whole: torch.Tensor | None, got: torch.Tensor | None) -> torch.Tensor | None:
        if not name.startswith("gradient "):
            return whole
        if not options.get("orig"):
            return got  # the module's own parameters have none
        # Without one it may be a view of the gradient of all parameters of its unit.
        return torch.zeros_like(got) if whole is None and got is not None else whole

    compare(found, [every[mesh.get_rank()] for every in expected], part, options)
