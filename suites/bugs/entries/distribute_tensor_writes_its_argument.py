r"""distribute_tensor with Replicate writes the source's numbers into the tensors that other ranks gave.

kind: silently wrong
expected: The argument stays as it was, as with Shard; the result is a new tensor.
happens: The argument itself is broadcast into where it is contiguous, and is then the result's local part.
fails: silently wrong: rank #'s own tensor
since: 2.11
reach: public API
fuzzer: none; read beside a test of placements
upstream: none found
who: Whoever distributes a tensor that differs by rank (a batch, a seed, a mask) and reads it again.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    mine = torch.full((2,), float(rank))
    distribute_tensor(mine, mesh, [Replicate()])
    assert mine.tolist() == [rank] * 2, f"rank {rank}'s own tensor: {mine.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
