r"""The sum of norms along a sharded dimension is wrong.

kind: silently wrong
expected: The norms of the whole, summed up.
happens: Each rank sums up the norms of its own part, and the sums are joined as norms are, by the root of the
  sum of their squares. mean(), max() and cumsum() of the same have it reduced first.
fails: silently wrong: sum
since: 2.11
reach: public API
fuzzer: dtensor
upstream: pytorch/pytorch#170498 and pytorch/pytorch#172288, both closed, are of it; 2.13 has it
who: Whoever sums up the norms of columns of a matrix that is sharded by rows: a group lasso, say.
seen: ^dtensor: silently wrong: value of v# differs[^|]*_NormPartial[^|]*\| .*norm\(.*\.sum\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = torch.tensor([[3.0, 0.0], [4.0, 1.0]])
    norms = torch.linalg.vector_norm(distribute_tensor(x, mesh, [Shard(0)]), dim=0)
    found, right = norms.sum().full_tensor(), torch.linalg.vector_norm(x, dim=0).sum()
    assert torch.allclose(found, right), f"sum {found.item()} for {right.item()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
