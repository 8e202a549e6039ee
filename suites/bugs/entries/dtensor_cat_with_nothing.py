r"""cat of a DTensor of shape (0,) and one whose second dimension is sharded fails.

kind: internal assertion
expected: The other tensor, as for plain tensors: cat leaves out what has the shape (0,).
happens: The strategy gives both the placement of the other one: "list index out of range", or "Sharding dim 2
  greater than tensor ndim 1".
fails: (internal assertion|refused): IndexError: (list index out of range|Dimension out of range)
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#185535 is of inductor
who: Whoever lets a cache grow by cat from torch.tensor([]) on, with keys that are sharded by heads.
seen: ^dtensor: (internal assertion|refused): IndexError: (list index|Dimension) out of range[^|]*\|
    .*torch\.cat\(
seen: ^dtensor: internal assertion: AssertionError: Sharding dim # greater than tensor ndim[^|]*\|
    .*torch\.cat\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    cache = distribute_tensor(torch.ones(0), mesh, [Shard(0)])
    keys = distribute_tensor(torch.ones(2, 4), mesh, [Shard(1)])
    whole = torch.cat([cache, keys], -1).full_tensor()
    assert whole.shape == (2, 4), f"the shape: {tuple(whole.shape)}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
