r"""FSDP2 cannot reshard to a part of the ranks after forward with parameters sharded by their last dimension.

kind: internal assertion
expected: The backward pass, as with reshard_after_forward=True. The documentation of fully_shard names no
  limit of the two together.
happens: With reshard_after_forward=2 of four ranks backward ends in an IndexError, or by "setStorage: ...
  out of bounds": parameters resharded to fewer ranks are flat, and are gathered by the dimension that
  they had.
fails: internal assertion: IndexError: list index out of range
since: 2.11
reach: public API
fuzzer: fsdp
upstream: none found; pytorch/pytorch#137496 brought shard_placement_fn
who: Whoever keeps parameters within a host after forward, and shards by another dimension than the first.
seen: ^fsdp: refused: RuntimeError: setStorage: sizes [^|]*\| [^|]*last_dim[^|]*reshard=2
seen: ^fsdp: internal assertion: IndexError: list index out of range[^|]*\| [^|]*last_dim[^|]*reshard=2
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import Shard

WORLD = 4


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    model = torch.nn.Linear(4, 4)
    fully_shard(
        model,
        mesh=init_device_mesh("cpu", (WORLD,)),
        reshard_after_forward=2,
        shard_placement_fn=lambda parameter: Shard(parameter.ndim - 1),
    )
    model(torch.ones(3, 4)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
