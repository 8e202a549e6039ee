r"""gather on shards reads another rank's rows where the index has fewer of them than the tensor.

kind: silently wrong
expected: gather along dimension 1 takes row i of the result from row i of the tensor, whatever is sharded:
  the tensor is redistributed where its shards do not hold the same rows as the index's.
happens: Rank r looks up its rows of the index in its own rows of the tensor, which are others where both are
  cut along dimension 0 and the index is shorter. scatter and scatter_add along dimension 1 call it in
  backward, so that the gradient of their source is wrong in the same way.
fails: silently wrong: gather
since: 2.11
reach: public API
fuzzer: none; operators of the database on shards
upstream: none found; pytorch/pytorch#186149 gives scatter shards of such dimensions
who: Whoever looks up or scatters along one dimension of a batch that is sharded over another.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    values = torch.arange(16.0).reshape(4, 4)
    index = torch.tensor([[0, 1, 2, 3], [3, 2, 1, 0]])
    sharded = (distribute_tensor(each, mesh, [Shard(0)]) for each in (values, index))
    found = torch.gather(next(sharded), 1, next(sharded)).full_tensor()
    right = torch.gather(values, 1, index)
    assert torch.equal(found, right), f"gather {found.tolist()} for {right.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
