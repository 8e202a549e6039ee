r"""FSDP1 ends the process in the second of two backward passes, where two forward passes ran before.

kind: process dies
expected: The gradients of both, as for a module that is not wrapped and with fully_shard; or an error that
  says that FSDP1 gathers parameters for one backward alone.
happens: The first backward frees the gathered parameters, and the second does not gather them again. What it
  reads of them is no memory: SIGSEGV, or an error of another subject, as that of a storage of size 0.
fails: process dies: SIGSEGV
since: 2.11
reach: public API
fuzzer: none; a test of FSDP1's steps
upstream: pytorch/pytorch#136861 is of an error in the same place, closed
who: Whoever calls a module for two losses, as of a discriminator or two views of a batch, each with its
  backward.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.fsdp import FullyShardedDataParallel


def main(rank, path):
    torch.set_num_threads(1)  # a forked pool of threads, used before it is made anew, ends 2.11 and 2.12
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    module = FullyShardedDataParallel(torch.nn.RMSNorm(4), device_id=torch.device("cpu"))
    x = torch.ones(1, 4, requires_grad=True)
    first, second = module(x), module(x)
    first.sum().backward()
    second.sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
