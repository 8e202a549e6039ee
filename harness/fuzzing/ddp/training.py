"""Trains a module with DDP in a rank, and without it in one process for all ranks; scripts contain this text.

The reference runs each rank's batches through one module with that rank's buffers, so that its gradients are
the mean of the ranks'. Both give the state after each step: gradients, parameters and buffers by name.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
from torch.nn.parallel import DistributedDataParallel

from harness.fuzzing.training import State, backward, batch, differences, made, states

# The number of the batch of a call without gradients.
EVALUATION = 9
# A step: how many batches, whether gradients are zeroed in place, whether there is a call without gradients.
Steps = Sequence[tuple[int, bool, bool]]


def averaged(bucket: Any) -> Any:
    """What a communication hook returns that averages in Python."""
    world = torch.distributed.get_world_size()
    future = torch.distributed.all_reduce(bucket.buffer(), async_op=True).get_future()
    return future.then(lambda done: done.value()[0] / world)


def with_ddp(
    model: Callable[[], nn.Module], rank: int, options: dict[str, Any], steps: Steps, hook: str, joins: bool
) -> Iterator[State]:
    """Yields the state of this rank after each of its steps."""
    module = made(model)
    ddp = DistributedDataParallel(module, **options)
    if hook:
        # DDP refuses a hook whose annotations are text, as those of this module are.
        own = default_hooks.allreduce_hook if hook == "allreduce" else lambda state, bucket: averaged(bucket)
        ddp.register_comm_hook(None, own)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    with ddp.join() if joins else contextlib.nullcontext():
        for step, (batches, keeps, evaluates) in enumerate(steps[: len(steps) - (joins and rank == 0)]):
            optimizer.zero_grad(set_to_none=not keeps)
            if evaluates:
                with torch.no_grad():
                    ddp(batch(rank, step, EVALUATION))
            for number in range(batches):
                with ddp.no_sync() if number + 1 < batches else contextlib.nullcontext():
                    backward(ddp, batch(rank, step, number))
            optimizer.step()
            yield states(module)


def without_ddp(
    model: Callable[[], nn.Module], world: int, options: dict[str, Any], steps: Steps, joins: bool
) -> Iterator[list[State]]:
    """Yields the states of all ranks after each step."""
    module = made(model)
    buffers = [{name: each.clone() for name, each in module.named_buffers()} for _ in range(world)]
    optimizer = torch.optim.SGD(module.parameters(), lr=0.5)
    broadcasts = due = options.get("broadcast_buffers", True)
    for step, (batches, keeps, evaluates) in enumerate(steps):
        optimizer.zero_grad(set_to_none=not keeps)
        for number in [EVALUATION] * evaluates + [*range(batches)]:
            if due:  # DDP sends buffers before a call that follows one with a synchronisation
                buffers = [{name: each.clone() for name, each in buffers[0].items()} for _ in range(world)]
            for rank in range(int(joins and step + 1 == len(steps)), world):
                module.load_state_dict(buffers[rank], strict=False)
                if number == EVALUATION:
                    with torch.no_grad():
                        module(batch(rank, step, number))
                else:
                    backward(module, batch(rank, step, number), 1 / world)
                buffers[rank] = {name: each.clone() for name, each in module.named_buffers()}
            due = broadcasts and number + 1 == batches
        optimizer.step()
        shared = states(module)
        yield [{**shared, **{f"buffer {name}": each for name, each in own.items()}} for own in buffers]


def check(
    model: Callable[[], nn.Module],
    rank: int,
    world: int,
    options: dict[str, Any],
    steps: Steps,
    hook: str = "",
    joins: bool = False,
) -> None:
    """Trains in both ways in a rank; AssertionError where the states differ."""
    found = list(with_ddp(model, rank, options, steps, hook, joins))
    expected = [each[rank] for each in without_ddp(model, world, options, steps, joins)]
    wrong = differences(found, expected)
    assert not wrong, wrong[0]
