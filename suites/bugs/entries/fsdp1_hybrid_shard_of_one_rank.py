r"""FSDP1 trains replicas apart where HYBRID_SHARD has one rank in each sharding group.

kind: silently wrong
expected: All replicas have the mean of all ranks' gradients, as with any other size of the sharding groups.
happens: With a mesh whose last dimension has one rank the strategy becomes NO_SHARD, which reduces over the
  sharding group: over nothing. Each rank trains with its own gradients, and the replicas drift apart.
fails: silently wrong: the ranks' gradients differ
since: 2.11
reach: public API
fuzzer: fsdp1
upstream: pytorch/pytorch#154888, closed as not planned
who: Whoever takes the size of the sharding groups from a configuration, where it can be 1.
seen: ^fsdp1: silently wrong: (gradient of|parameter) [^|]* differs[^|]*\| [^|]*mesh\(\dx1\)
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

WORLD = 2


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    torch.manual_seed(0)
    mesh = init_device_mesh("cpu", (WORLD, 1), mesh_dim_names=("replicate", "shard"))
    model = FullyShardedDataParallel(
        torch.nn.Linear(4, 4),
        device_mesh=mesh,
        sharding_strategy=ShardingStrategy.HYBRID_SHARD,
        device_id=torch.device("cpu"),
    )
    model(torch.full((3, 4), rank + 1.0)).sum().backward()
    own = next(model.parameters()).grad
    others = [torch.empty_like(own) for _ in range(WORLD)]
    dist.all_gather(others, own)
    assert torch.equal(others[0], others[1]), "the ranks' gradients differ"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
