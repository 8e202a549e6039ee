r"""torch.distributed.nn.functional.all_to_all, and all_gather's gradient, refuse in a group without rank 0.

kind: refused
expected: Each member gets the sum of its gradients on all members of the group, as in the default group.
happens: "ValueError: Global rank 0 is not part of group": on gloo the exchange is made of calls of scatter,
  with the source's number in the group, where scatter takes its number among all ranks. In a group of rank 0
  and others it may be another member's.
fails: refused: ValueError: Global rank # is not part of group
since: 2.11
reach: public API, on gloo
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
    x = torch.ones(2, requires_grad=True)
    if rank:
        sum(functional.all_gather(x, group)).sum().backward()
        assert x.grad.tolist() == [2, 2], f"gradient {x.grad.tolist()}, not [2, 2]"
        dist.barrier(group)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=3, start_method="fork")
