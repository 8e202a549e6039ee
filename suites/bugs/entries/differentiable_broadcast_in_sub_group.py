r"""The gradient of torch.distributed.nn.functional.broadcast is lost in a group without rank 0.

kind: silently wrong
expected: The source gets the sum of what comes back from all members of the group, as in the default group.
happens: The source's number is among all ranks, and is compared with its number in the group: where they
  differ, its gradient is set to zero.
fails: silently wrong: gradient
since: 2.11
before: 2.14
reach: public API
fuzzer: none; read beside a test of differentiable collectives
upstream: pytorch/pytorch#130515, mended by #190583
who: Whoever broadcasts activations in a group of some ranks, and trains what they come from.
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
        functional.broadcast(x, 1, group).sum().backward()
    dist.barrier()
    assert rank != 1 or x.grad.tolist() == [2, 2], f"gradient {x.grad.tolist()} of the source, not [2, 2]"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=3, start_method="fork")
