r"""fill_ of a Partial tensor writes the number to each rank's part.

kind: silently wrong
expected: All elements are 3, as in a plain tensor.
happens: They are 3 times the number of ranks: each part is 3, and the parts are added. The same goes for
  the result of sum().
fails: silently wrong: fill_
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#163193 is of a Partial tensor to which a number is added
who: Whoever fills what a reduction has made.
seen: ^dtensor: silently wrong: value of v# differs[^|]*(Partial\(sum\)|_NormPartial)[^|]*\| .*\.fill_\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(4, 2), mesh, [Shard(0)]).sum(0)
    x.fill_(3)
    assert x.full_tensor().tolist() == [3, 3], f"fill_: {x.full_tensor()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
