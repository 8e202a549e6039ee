"""A call without gradients under join() ends the processes, when another rank has no more inputs.

kind: process dies
expected: The call evaluates the module, as it does without join().
happens: Its check for a synchronization meets another collective of the joined rank; gloo ends the process,
  and its peer may die of what is torn down.
fails: process dies: SIG(ABRT|SEGV)
since: 2.11
reach: public API
fuzzer: ddp
upstream: none found; pytorch/pytorch#44425 is of no_sync() under join()
who: Whoever evaluates during training on uneven inputs.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.nn.parallel import DistributedDataParallel


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    ddp = DistributedDataParallel(torch.nn.Linear(2, 2))
    with ddp.join():
        if rank == 1:
            with torch.no_grad():
                ddp(torch.ones(1, 2))
            ddp(torch.ones(1, 2)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
