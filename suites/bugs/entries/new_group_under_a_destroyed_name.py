"""A second group of the same ranks hangs with use_local_synchronization once the first is destroyed.

kind: hangs
expected: A new group, as without use_local_synchronization.
happens: Its name is that of the destroyed group, a hash of the ranks and of how many groups there are: what
  the first group left in the store is read, and its connections are waited for. Where a third group was made
  in between, new_group ends by ValueError: The specified group name has already been created. Now and then
  the connection to the first group's address is refused or reset at once.
fails: hangs: .*|refused: RuntimeError: .*([Gg]loo|[Cc]onnect).*
since: 2.11
reach: public API
fuzzer: collectives
upstream: none found; pytorch/pytorch#55967 is of the default group with one store
who: Whoever makes groups for a while: by layer, by request, in tests.
"""

import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, path):
    store, limit = dist.FileStore(path, 2), timedelta(hours=1)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=limit)
    for _ in range(50):  # it is a race: one or two more groups often are right
        group = dist.new_group([0, 1], use_local_synchronization=True)
        x = torch.ones(1)
        dist.all_reduce(x, group=group)
        assert x.item() == 2, f"{x}"
        dist.destroy_process_group(group)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
