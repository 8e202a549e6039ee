r"""The backward of the infinity norm of a minimum over shards, or of flattened ones, fails on a 2-d mesh.

kind: refused
expected: Gradients, as for plain tensors.
happens: RuntimeError: narrow unexpectedly changed concrete size on dim 0: 2 -> 0, as DTensor gathers shards
  of a tensor with other sizes than its specification has.
fails: refused: RuntimeError: narrow unexpectedly changed concrete size
since: 2.12
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever has the infinity norm of what a reduction over shards or flatten() has made in a loss.
seen: ^dtensor: refused: RuntimeError: narrow unexpectedly changed[^|]*\|
    .*\.(amin|amax|max|min|flatten|reshape|view)\([^;]*;(.*; )?[^;]*ord=float\('inf'\).*; backward
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    torch.set_num_threads(1)  # a forked pool of threads, used before it is made anew, ends 2.11 and 2.12
    dist.init_process_group("gloo", store=dist.FileStore(path, 4), rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2))
    x = torch.arange(8.0).reshape(4, 2)
    x = distribute_tensor(x, mesh, [Shard(0), Shard(1)]).requires_grad_()
    norm = torch.linalg.vector_norm(x.amin(-1), ord=float("inf"))
    norm.full_tensor().backward()
    assert x.grad.shape == x.shape, "the shape"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=4, start_method="fork")
