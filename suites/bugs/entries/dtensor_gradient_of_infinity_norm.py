r"""The gradient of the infinity norm of a sharded tensor is not a number, where some shard lacks the largest.

kind: silently wrong
expected: The sign of the largest element at its place and zero everywhere else, as for plain tensors.
happens: Each rank shares the gradient among those of its own elements that are as large as the norm: on a
  rank with none it divides by zero. The norm itself is right.
fails: silently wrong: gradient
since: 2.11
reach: public API
fuzzer: dtensor; a test of norms of DTensors
upstream: none found
who: Whoever has the infinity norm of a sharded parameter or result in a loss.
seen: ^dtensor: silently wrong: value of v#\.grad differs[^|]*\| .*ord=float\('inf'\).*; backward$
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.tensor([1.0, 2.0, 3.0, 4.0]), mesh, [Shard(0)]).requires_grad_()
    torch.linalg.vector_norm(x, ord=float("inf")).full_tensor().backward()
    found = x.grad.full_tensor().tolist()
    assert found == [0, 0, 0, 1], f"gradient {found}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
