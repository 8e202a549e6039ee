r"""FSDP1 reduces the accumulated gradient of a unit with one element again.

kind: silently wrong
expected: Two backwards without no_sync() leave the sum of their gradients.
happens: Another sum: the gradient's shard is as large as the gradient itself where that has one element, and
  the second backward takes it for one that is not reduced yet.
fails: silently wrong: the gradient is
since: 2.11
reach: public API
fuzzer: fsdp1
upstream: none found
who: Whoever wraps a module with a single scale, gate or temperature by itself, and accumulates gradients.
seen: ^fsdp1: silently wrong: (gradient of|parameter) [^|]*tiny#[^|]* differs[^|]*\| [^|]*step\([23], each
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.fsdp import FullyShardedDataParallel

WORLD = 2


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    model = FullyShardedDataParallel(torch.nn.Linear(1, 1, bias=False), device_id=torch.device("cpu"))
    for value in (1.0, 2.0):
        model(torch.full((1, 1), value)).sum().backward()
    if rank == 0:  # the other rank has no part of it
        found = next(model.parameters()).grad.item()
        assert found == 3.0, f"the gradient is {found}, but 1 + 2 is right"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
