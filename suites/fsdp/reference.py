"""What sharded training must arrive at: one process, one unsharded model, the rows of all ranks.

With as many rows on each rank, the mean over ranks of each rank's mean gradient is the gradient of the mean
over all rows. What a rank may hold of it follows from what FSDP's shards are: FSDP1 lays the parameters of a
unit flat one behind the other, each at a multiple of 16 bytes, and cuts the whole into one slice a rank;
FSDP2 cuts each parameter along its first dimension, as ``torch.chunk`` does. No collective is in here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

#: Settings of the optimizer: with momentum, a step also depends on the gradients of those before it.
SGD = {"lr": 0.1, "momentum": 0.9}
#: Rows of each rank in a step.
ROWS = 3

#: Elements of float32 at whose multiples FSDP1 lets parameters begin: 16 bytes.
ALIGNED = 4

Tensors = Mapping[str, Tensor]


@dataclass(frozen=True)
class Batch:
    """The rows of all ranks in one step, and what the model is to make of them."""

    inputs: Tensor
    targets: Tensor

    def of(self, rank: int) -> Batch:
        """One rank's rows."""
        rows = slice(rank * ROWS, (rank + 1) * ROWS)
        return Batch(self.inputs[rows], self.targets[rows])

    def to(self, device: torch.device) -> Batch:
        """The same on a device."""
        return Batch(self.inputs.to(device), self.targets.to(device))


@dataclass(frozen=True)
class Step:
    """What a step comes to: each rank's loss, and by name the gradients and the parameters after it."""

    losses: Sequence[Tensor]
    gradients: Tensors
    parameters: Tensors


def batches(steps: int, world_size: int, widths: tuple[int, int]) -> list[Batch]:
    """Rows for all ranks, drawn from the generator that all ranks have seeded alike; no two are the same."""
    rows = ROWS * world_size
    return [Batch(torch.randn(rows, widths[0]), torch.randn(rows, widths[1])) for _ in range(steps)]


def loss_of(model: Callable[[Tensor], Tensor], batch: Batch) -> Tensor:
    """The mean over the rows and numbers of a batch, that is to say of one rank or of all."""
    return mse_loss(model(batch.inputs), batch.targets)


def train_alone(model: nn.Module, rows: Sequence[Batch]) -> Iterator[Step]:
    """Train a copy of the model on the rows of all ranks, uncompiled; the model itself stays as it is."""
    alone = copy.deepcopy(model)
    optimizer = torch.optim.SGD(alone.parameters(), **SGD)
    for batch in rows:
        optimizer.zero_grad()
        outputs = alone(batch.inputs)  # once, for some models change themselves
        mse_loss(outputs, batch.targets).backward()
        by_rank = zip(outputs.detach().split(ROWS), batch.targets.split(ROWS), strict=True)
        losses = [mse_loss(mine, targets) for mine, targets in by_rank]
        gradients = {name: value.grad.clone() for name, value in alone.named_parameters()}
        optimizer.step()
        parameters = {name: value.detach().clone() for name, value in alone.named_parameters()}
        yield Step(losses, gradients, parameters)


def flat_shards(
    values: Tensors, units: Sequence[Sequence[str]], rank: int, world_size: int, aligned: int = ALIGNED
) -> Tensors:
    """One rank's slice of each unit's flat parameter, cut back into the parameters that it meets.

    ``units`` are the names of each unit's parameters in order, ``aligned`` the elements at whose multiples
    one may begin. A parameter that the slice misses is empty.
    """
    shards = {}
    for names in units:
        begins, total = [], 0
        for name in names:
            begins.append(_up_to_multiple(total, aligned))
            total = begins[-1] + values[name].numel()
        size = _up_to_multiple(total, world_size) // world_size
        for name, begin in zip(names, begins, strict=True):
            start, end = rank * size - begin, (rank + 1) * size - begin
            shards[name] = values[name].flatten()[max(start, 0) : max(end, 0)]
    return shards


def _up_to_multiple(number: int, of: int) -> int:
    return -(-number // of) * of


def row_shards(values: Tensors, rank: int, world_size: int) -> Tensors:
    """One rank's rows of each parameter; none where there are fewer rows than ranks before it."""
    shards = {}
    for name, value in values.items():
        parts = value.chunk(world_size)
        shards[name] = parts[rank] if rank < len(parts) else value[:0]
    return shards
