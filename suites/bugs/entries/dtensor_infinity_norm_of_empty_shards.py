"""The infinity norm fails where a rank has no elements.

kind: refused
expected: The norm over all elements, which are there: on other ranks.
happens: A rank with an empty shard raises, and the others wait for it in the collective.
fails: refused: RuntimeError: linalg.vector_norm cannot compute the inf norm
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever clips gradients by the infinity norm, where a parameter has fewer rows than ranks.
seen: ^dtensor: .*vector_norm cannot compute the inf norm
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(1, 2), mesh, [Shard(0)])
    assert torch.linalg.vector_norm(x, ord=float("inf")).full_tensor() == 1, "the norm"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
