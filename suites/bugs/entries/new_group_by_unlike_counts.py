"""new_group hangs with use_local_synchronization where its ranks are in unlike numbers of groups.

kind: hangs
expected: A group of ranks 0 and 2. Only the members have to call new_group with use_local_synchronization.
happens: The group's name is a hash of its ranks and of how many groups a rank has. Rank 0 has one more than
  rank 2, so each waits in a store under another name for the other.
fails: hangs: .*
since: 2.11
reach: public API
fuzzer: collectives
upstream: pytorch/pytorch#189073 is of split_group
who: Whoever makes the groups of a grid of ranks (tensor, data, pipeline) by local synchronization.
"""

import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, path):
    store, limit = dist.FileStore(path, 3), timedelta(hours=1)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=3, timeout=limit)
    if rank in (0, 1):
        dist.new_group([0, 1], use_local_synchronization=True)
    if rank in (0, 2):
        group = dist.new_group([0, 2], use_local_synchronization=True)
        x = torch.ones(1)
        dist.all_reduce(x, group=group)
        assert x.item() == 2, f"{x}"
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=3, start_method="fork")
