r"""cumsum over dimension -1 sums in each shard alone, where that dimension is sharded.

kind: silently wrong
expected: The sums go over all elements, as cumsum over the same dimension by its positive number gives
  them.
happens: Each rank sums its shard: the strategy compares -1 with the sharded dimension.
fails: silently wrong: cumsum
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever takes cumsum(-1) of logits or probabilities under tensor parallelism.
seen: ^dtensor: silently wrong: .*\| .*(cumsum|cumprod)\(\{0\}, -1
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(2, 4), mesh, [Shard(1)])
    assert torch.cumsum(x, 1).full_tensor()[0].tolist() == [1, 2, 3, 4], "cumsum over 1"
    got = torch.cumsum(x, -1).full_tensor()[0].tolist()
    assert got == [1, 2, 3, 4], f"cumsum over -1: {got}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
