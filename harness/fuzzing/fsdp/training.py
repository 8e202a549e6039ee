"""Trains a module with FSDP2 in a rank, and in one process for all ranks; scripts contain this text.

The reference runs each rank's batches through one module with that rank's buffers, in the precision of the
policy, and averages the ranks' gradients. What a rank holds is compared with its rows of the reference, so
that nothing is gathered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.fsdp import CPUOffloadPolicy, FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor, Shard

from harness.fuzzing.fsdp.meshes import Meshes, carry_over, meshes_of
from harness.fuzzing.training import State, backward, batch, difference, made, noise, states

# The number of the batch of a call without gradients.
EVALUATION = 9
# The limit of the gradients' norm, below what most are.
LIMIT = 0.05
# How far results may be off, relative and absolute, by the precision in which they are computed.
TOLERANCES = {"float64": 1e-8, "float32": 1e-3, "bfloat16": 1e-1}
# A step: batches, way, keeps, evaluates, restores, clips.
Steps = Sequence[tuple[int, str, bool, bool, str, bool]]
# The name of what a step that clips says beside its states.
NORM = "norm of the gradients"


def built(model: Callable[[], nn.Module], options: dict[str, Any]) -> nn.Module:
    """A new module, of float32 if it is ``single``."""
    module = made(model)
    return module.float() if options.get("single") else module


def optimizer_of(module: nn.Module, name: str, foreach: bool) -> torch.optim.Optimizer:
    """The optimizer of a name."""
    parameters = [each for each in module.parameters() if each.requires_grad]
    if name == "adam":
        return torch.optim.AdamW(parameters, lr=0.1, eps=1e-2, foreach=foreach)
    return torch.optim.SGD(parameters, lr=0.2, momentum=0.9 * (name == "momentum"), foreach=foreach)


def sharded(
    module: nn.Module, mesh: DeviceMesh, units: Sequence[str], ignored: Sequence[str], options: dict[str, Any]
) -> FSDPModule:
    """Shards the units of a module, and what is left of it, in place."""
    rest = {each for name in ignored for each in module.get_submodule(name).parameters()}
    given: dict[str, Any] = {"mesh": mesh, "ignored_params": rest} if rest else {"mesh": mesh}
    if "reshard" in options:
        given["reshard_after_forward"] = options["reshard"]
    if "dtype" in options:
        reduce = options.get("reduce")
        given["mp_policy"] = MixedPrecisionPolicy(
            getattr(torch, options["dtype"]), None if reduce is None else getattr(torch, reduce)
        )
    if options.get("offload"):
        given["offload_policy"] = CPUOffloadPolicy(pin_memory=False)
    if options.get("last_dim"):
        given["shard_placement_fn"] = lambda parameter: Shard(parameter.ndim - 1)
    wrapped: set[nn.Module] = set()
    for name in units:
        unit = module.get_submodule(name)
        if unit not in wrapped:
            wrapped.add(unit)
            if options.get("compile") == "units":
                unit.compile(backend="aot_eager")
            fully_shard(unit, **given)
    fsdp = fully_shard(module, **given)
    if options.get("compile") == "whole":
        module.compile(backend="aot_eager")
    return fsdp


def with_fsdp(
    model: Callable[[], nn.Module],
    meshes: Sequence[DeviceMesh],
    units: Sequence[str],
    ignored: Sequence[str],
    options: dict[str, Any],
    steps: Steps,
    optimizer: str,
) -> Iterator[State]:
    """Yields what this rank holds after each of its steps, in the meshes of ``meshes_of``."""
    rank = torch.distributed.get_rank()
    if "compile" in options:
        torch.compiler.reset()  # else the code that all modules share is compiled for the first ones alone
    module = made(model)
    fsdp = sharded(module, meshes[0], units, ignored, options)
    optim = optimizer_of(module, optimizer, not ignored)
    for step, (batches, way, keeps, evaluates, restores, clips) in enumerate(steps):
        if restores:
            before = module, optim
            module = emptied(made(model))
            fsdp = sharded(module, meshes[step + 1], units, ignored, options)
            optim = optimizer_of(module, optimizer, not ignored)
            carry_over(before, (module, optim), restores)
        optim.zero_grad(set_to_none=not keeps)
        if evaluates:
            with torch.no_grad():
                module(batch(rank, step, EVALUATION))
        for number in range(batches):
            last = number + 1 == batches
            fsdp.set_is_last_backward(last)
            fsdp.set_requires_gradient_sync(last or way == "each")
            fsdp.set_reshard_after_backward(last or way != "kept")
            backward(module, batch(rank, step, number))
        for name in ignored:  # FSDP leaves them to the user
            for parameter in module.get_submodule(name).parameters():
                average_gradient(parameter)
        norm = {NORM: clipped(module)} if clips else {}
        optim.step()
        yield {name: local(value) for name, value in states(module).items()} | norm


def clipped(module: nn.Module) -> torch.Tensor:
    """Limits the norm of the gradients, and gives what it was."""
    trained = [each for each in module.parameters() if each.requires_grad]
    norm = nn.utils.clip_grad_norm_(trained, LIMIT)
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def average_gradient(parameter: nn.Parameter) -> None:
    """Makes a gradient, if there is one, the mean of all ranks' gradients."""
    if parameter.grad is not None:
        torch.distributed.all_reduce(parameter.grad)
        parameter.grad /= torch.distributed.get_world_size()


def emptied(module: nn.Module) -> nn.Module:
    """The module with zeros for parameters and ones for buffers, so that nothing is right by chance."""
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.zero_()
        for buffer in module.buffers():
            buffer.fill_(1)
    return module


def local(value: torch.Tensor | None) -> torch.Tensor | None:
    """What this rank has of a tensor."""
    return value.to_local() if isinstance(value, DTensor) else value


def without_fsdp(
    model: Callable[[], nn.Module],
    world: int,
    options: dict[str, Any],
    steps: Steps,
    optimizer: str,
    ignored: Sequence[str] = (),
) -> Iterator[list[State]]:
    """Yields the states of all ranks after each step, in whole tensors."""
    module = built(model, options)
    buffers = [{name: each.clone() for name, each in module.named_buffers()} for _ in range(world)]
    optim = optimizer_of(module, optimizer, not ignored)
    dtype = getattr(torch, precision(options))
    for step, (batches, _, keeps, evaluates, restores, clips) in enumerate(steps):
        optim.zero_grad(set_to_none=not keeps or bool(restores))
        for number in [EVALUATION] * evaluates + [*range(batches)]:
            for rank in range(world):
                module.load_state_dict(buffers[rank], strict=False)
                low = made(model).to(dtype)
                low.load_state_dict(module.state_dict())
                x = batch(rank, step, number).to(dtype)
                if number == EVALUATION:
                    with torch.no_grad():
                        low(x)
                else:
                    backward(low, x)
                    add_gradients(module, low, world)
                buffers[rank] = {name: each.clone() for name, each in low.named_buffers()}
        norm = {NORM: limited(module)} if clips else {}
        optim.step()
        shared = states(module) | norm
        yield [{**shared, **{f"buffer {name}": each for name, each in own.items()}} for own in buffers]


def limited(module: nn.Module) -> torch.Tensor:
    """Limits the norm of the gradients by its definition, and gives what it was."""
    grads = [each.grad for each in module.parameters() if each.grad is not None]
    norm = torch.cat([each.flatten() for each in grads]).square().sum().sqrt()
    for each in grads:
        each *= min(1.0, LIMIT / (float(norm) + 1e-6))
    return norm


def precision(options: dict[str, Any]) -> str:
    """The dtype in which gradients are computed."""
    found: str = options.get("dtype", "float32" if options.get("single") else "float64")
    return found


def add_gradients(module: nn.Module, low: nn.Module, world: int) -> None:
    """Adds a rank's part of the mean of gradients, which were computed in a lower precision."""
    for parameter, other in zip(module.parameters(), low.parameters(), strict=True):
        if other.grad is not None:
            part = other.grad.to(parameter.dtype) / world
            parameter.grad = part if parameter.grad is None else parameter.grad + part


def shard_of(value: torch.Tensor | None, last_dim: bool, rank: int, parts: int) -> torch.Tensor | None:
    """A rank's part of a whole tensor."""
    if value is None:
        return None
    dim = value.ndim - 1 if last_dim else 0
    chunks = torch.chunk(value, parts, dim)
    return chunks[rank] if rank < len(chunks) else value.narrow(dim, 0, 0)


def check(
    model: Callable[[], nn.Module],
    shape: Sequence[int],
    units: Sequence[str],
    ignored: Sequence[str],
    options: dict[str, Any],
    steps: Steps,
    optimizer: str,
    kept: Meshes | None = None,
) -> None:
    """Trains in both ways in a rank; AssertionError where what it holds differs. ``kept`` are meshes."""
    meshes = meshes_of(shape, [each[4] for each in steps], {} if kept is None else kept)
    found = list(with_fsdp(model, meshes, units, ignored, options, steps, optimizer))
    expected = without_fsdp(model, meshes[0].size(), options, steps, optimizer, ignored)

    def part(step: int, name: str, whole: torch.Tensor | None, _: torch.Tensor | None) -> torch.Tensor | None:
        if name.startswith(("buffer ", NORM)) or name.split(" ")[-1].rpartition(".")[0] in ignored:
            return whole
        mesh = meshes[step + 1]
        place, parts = mesh.get_local_rank(mesh.ndim - 1), mesh.size(mesh.ndim - 1)
        return shard_of(whole, options.get("last_dim", False), place, parts)

    compare(found, [every[meshes[0].get_rank()] for every in expected], part, options)


def compare(
    found: Sequence[State],
    expected: Sequence[State],
    part: Callable[[int, str, torch.Tensor | None, torch.Tensor | None], torch.Tensor | None],
    options: dict[str, Any],
) -> None:
    """AssertionError where a rank's states after a step differ from what is right.

    ``part`` gives what is right in a step in place of a whole tensor, for its name and the tensor found.
    """
    tolerance = TOLERANCES[precision(options)]
    for step, (own, whole) in enumerate(zip(found, expected, strict=True)):
        assert own.keys() == whole.keys(), f"names: {[*own]} for {[*whole]}"
        absolute = noise(expected[: step + 1])
        for name, got in own.items():
            right = part(step, name, whole[name], got)
            text = difference(name, got, right, tolerance, absolute)
            assert not text, f"{text}\nafter step {step}: {got}\nfor {right}"
