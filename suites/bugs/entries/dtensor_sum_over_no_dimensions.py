r"""The sum over an empty list of dimensions, which is that of all, is the first rank's part of it.

kind: silently wrong
expected: The sum of all elements, as for plain tensors, of which dim=[] reduces every dimension.
happens: DTensor takes it for a sum over nothing, and what each rank has summed for a shard of the result: of
  a sum of shape (1, 1) the first rank's is taken, and one of shape () fails, "list index out of range".
  So it is for the mean.
fails: silently wrong: sum
since: 2.11
reach: public API
fuzzer: none; a test of sharding rules
upstream: none found; pytorch/pytorch#83357 was the same of shape functions
who: Whoever computes the dimensions to reduce from a layout, where all are to be.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    values = distribute_tensor(torch.ones(2, 3), mesh, [Shard(0)])
    found = values.sum(dim=[], keepdim=True).full_tensor().item()
    assert found == 6, f"sum {found} for 6"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
