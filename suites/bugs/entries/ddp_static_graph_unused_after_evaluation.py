"""With static_graph and a parameter without a gradient, a call without gradients breaks the next reduction.

kind: silently wrong
expected: The gradient is the mean over the ranks, 1.5, as it is without the call in between.
happens: Each rank keeps its own gradient after the second step; nothing is said.
fails: silently wrong: the gradient
since: 2.13
reach: public API
fuzzer: ddp
upstream: pytorch/pytorch#97030 and pytorch/pytorch#79171, which need no call without gradients
who: Whoever evaluates between steps with static_graph=True, where some output has no part in the loss.
seen: ^ddp: silently wrong: gradient of .*\\| .*static_graph.*evaluates
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.ignored = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x), self.ignored(x)


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    ddp = DistributedDataParallel(Model(), static_graph=True)
    x = torch.full((1, 2), rank + 1.0)
    for _ in range(2):
        ddp.zero_grad()
        with torch.no_grad():
            ddp(x)
        ddp(x)[0].sum().backward()
    grad = ddp.module.used.weight.grad
    assert grad.eq(1.5).all(), f"the gradient: {grad}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
