r"""cat of norms along a sharded dimension and of a replicated tensor drops the signs of the latter.

kind: silently wrong
expected: The norms and -1.0 in one tensor.
happens: It is 1.0. The result is one of norms: to be reduced as these are, by the root of the sum of the
  ranks' squares, the replicated tensor is divided among the ranks, and the squares do not know the sign of
  -1.0. So it is with stack().
fails: silently wrong: cat
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever logs norms of columns beside other numbers.
seen: ^dtensor: silently wrong: value of v# differs[^|]*_NormPartial[^|]*\| .*norm\(.*(cat|stack)\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x, one = torch.tensor([[3.0], [4.0]]), torch.tensor([-1.0])
    norms = torch.linalg.vector_norm(distribute_tensor(x, mesh, [Shard(0)]), dim=0)
    found = torch.cat([norms, distribute_tensor(one, mesh, [Replicate()])]).full_tensor()
    right = torch.tensor([5.0, -1.0])
    assert torch.allclose(found, right), f"cat {found.tolist()} for {right.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
