r"""torch.distributed.nn.functional.gather and scatter refuse in a group that does not begin at rank 0.

kind: refused
expected: The destination gets what all members of the group have, as in the default group; dst and src are
  numbers among all ranks, as those of torch.distributed.gather and scatter are.
happens: "ValueError: Argument ``gather_list`` must be specified on destination rank": a member is the
  destination where its number in the group is dst, and torch.distributed.gather takes the other number.
fails: refused: ValueError: .*gather_list.* must
since: 2.11
reach: public API
fuzzer: none; read beside a test of differentiable collectives
upstream: none found; pytorch/pytorch#130515 is the same of broadcast, and #190583 mends that alone
who: Whoever gathers activations in a group of some ranks, and trains what they come from.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.nn import functional


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 3), rank=rank, world_size=3)
    group = dist.new_group([1, 2])
    dist.barrier()  # rank 0 would leave while the others still connect to it
    if rank:
        functional.gather(torch.ones(2), 1, group)
        dist.barrier(group)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=3, start_method="fork")
