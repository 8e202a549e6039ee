"""Programs in which a rank leaves out a part of DDP's, FSDP's or DTensor's work, or does it otherwise."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.nn.parallel import DistributedDataParallel

from suites.selftest.communication.programs.program import KEPT, Kind, Table

TABLE = Table()
bug = TABLE.bug


class TwoHeads(nn.Module):  # type: ignore[misc]  # torch is not followed
    """A model of which a rank may use one head only."""

    def __init__(self) -> None:
        super().__init__()
        self.heads = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))

    def forward(self, batch: torch.Tensor, used: int) -> torch.Tensor:
        """Sums what the first ``used`` heads say."""
        return sum((head(batch) for head in list(self.heads)[:used]), torch.zeros(()))


def sharded() -> Any:
    """Returns a small model under FSDP2, whose two layers are sharded apart."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


@bug(2, Kind.DEADLOCKED, "rank 1 left the test", "rank 0", "all_reduce", "{waits}", modes=KEPT)
def ddp_backward_left_out(rank: int, world_size: int) -> None:
    """Rank 1 leaves out the backward of the last step."""
    model = DistributedDataParallel(nn.Linear(4, 4))
    for step in range(2):
        loss = model(torch.ones(2, 4)).sum()
        if rank == 0 or step == 0:
            loss.backward()  # waits


@bug(3, Kind.DEADLOCKED, "rank 2 left the test", "ranks 0, 1", "all_reduce", "{waits}", guilty=[2])
def ddp_has_fewer_batches(rank: int, world_size: int) -> None:
    """Rank 2 has one batch less than its peers."""
    model = DistributedDataParallel(nn.Linear(4, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2 if rank == 2 else 3):
        optimizer.zero_grad()
        model(torch.ones(2, 4)).sum().backward()  # waits
        optimizer.step()


@bug(3, Kind.DEADLOCKED, "rank 1 left the test", "ranks 0, 2", "all_reduce", "{waits}", guilty=[1])
def ddp_leaves_a_parameter_out(rank: int, world_size: int) -> None:
    """Rank 1 uses one head of two, without find_unused_parameters."""
    model = DistributedDataParallel(TwoHeads())
    model(torch.ones(2, 4), used=1 if rank == 1 else 2).sum().backward()  # waits


@bug(3, Kind.DEADLOCKED, "rank 0 left the test", "ranks 1, 2", "{waits}", guilty=[0])
def ddp_on_some_ranks(rank: int, world_size: int) -> None:
    """Rank 0 does not wrap its model."""
    model: nn.Module = nn.Linear(4, 4)
    if rank != 0:
        model = DistributedDataParallel(model)  # waits
    model(torch.ones(2, 4))


@bug(3, Kind.ERROR, "rank 1", "params[0]", guilty=[1])
def ddp_shapes_differ(rank: int, world_size: int) -> None:
    """Rank 1 wraps a model with other shapes."""
    model = DistributedDataParallel(nn.Linear(4, 5 if rank == 1 else 4))
    model(torch.ones(2, 4)).sum().backward()


@bug(2, Kind.DEADLOCKED, "rank 1 left the test", "rank 0", "all_gather", "{waits}")
def fsdp_forward_left_out(rank: int, world_size: int) -> None:
    """Rank 1 leaves out a forward of a sharded model."""
    model = sharded()
    if rank == 0:
        model(torch.ones(2, 4))  # waits


@bug(2, Kind.DEADLOCKED, "rank 1 left the test", "rank 0", "reduce_scatter | all_gather", "{waits}")
def fsdp_backward_left_out(rank: int, world_size: int) -> None:
    """Rank 1 evaluates a sharded model where rank 0 trains it."""
    model = sharded()
    loss = model(torch.ones(2, 4)).sum()
    if rank == 0:
        loss.backward()  # waits


@bug(3, Kind.DEADLOCKED, "rank 0", "all_gather", "{guilty}", guilty=[0])
def full_tensor_on_one_rank(rank: int, world_size: int) -> None:
    """Rank 0 alone looks at the whole of a sharded tensor."""
    mesh = init_device_mesh("cpu", (world_size,))
    tensor = distribute_tensor(torch.ones(6, 2), mesh, [Shard(0)])
    if rank == 0:
        print(tensor.full_tensor())  # guilty


@bug(2, Kind.DEADLOCKED, "rank 1", "rank 0", "barrier #", "{guilty}")
def state_dict_on_rank_0(rank: int, world_size: int) -> None:
    """Rank 0 alone collects the parameters of a sharded model for its checkpoint."""
    model = sharded()
    model(torch.ones(2, 4)).sum().backward()
    if rank == 0:
        {name: each.full_tensor() for name, each in model.state_dict().items()}  # guilty
    dist.barrier()


# -- placements


@bug(
    2,
    Kind.ERROR,
    "rank 0",
    "rank 1",
    "redistribute",
    "Replicate() | R",
    "Shard(dim=1) | S(1)",
    "{guilty}",
)
def placements_differ(rank: int, world_size: int) -> None:
    """Rank 1 redistributes a tensor to other placements than rank 0, by collectives that happen to match."""
    mesh = init_device_mesh("cpu", (world_size,))
    tensor = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    wanted: list[Placement] = [Replicate()] if rank == 0 else [Shard(1)]
    tensor.redistribute(mesh, wanted)  # guilty


@bug(
    3,
    Kind.ERROR,
    "rank 1",
    "Shard(dim=1) | S(1)",
    "ranks 0, 2",
    "Shard(dim=0) | S(0)",
    "{guilty}",
    guilty=[1],
)
def distributes_otherwise(rank: int, world_size: int) -> None:
    """Rank 1 shards a tensor along another dimension than its peers."""
    mesh = init_device_mesh("cpu", (world_size,))
    distribute_tensor(torch.ones(6, 6), mesh, [Shard(1 if rank == 1 else 0)])  # guilty


@bug(3, Kind.ERROR, "rank 1 holds (3, *) as", "from_local #1", "{guilty}", "ranks 0, 2 (*, 3) as", guilty=[1])
def parts_are_taken_otherwise(rank: int, world_size: int) -> None:
    """Rank 1 takes its part for one of another dimension than its peers do."""
    mesh = init_device_mesh("cpu", (world_size,))
    DTensor.from_local(torch.ones(3, 3), mesh, [Shard(1 if rank == 1 else 0)])  # guilty


@bug(3, Kind.ERROR, "rank 2 holds (4, *) as", "from_local #2", "{guilty}", "ranks 0, 1 (3, *) as", guilty=[2])
def parts_do_not_fit(rank: int, world_size: int) -> None:
    """Rank 2 has a part of another height, where tensors are split by columns."""
    mesh = init_device_mesh("cpu", (world_size,))
    for height in (2, 4 if rank == 2 else 3):
        DTensor.from_local(torch.ones(height, 1 + rank), mesh, [Shard(1)])  # guilty
