r"""With static_graph and a parameter without a gradient, a backward under no_sync() fails the next one.

kind: refused
expected: Gradients are accumulated, and reduced by the last backward: the graph is always the same.
happens: RuntimeError "Expected to have finished reduction in the prior iteration".
fails: refused: RuntimeError: Expected to have finished reduction in the prior iteration
since: 2.13
reach: public API
fuzzer: ddp
upstream: pytorch/pytorch#97030 and pytorch/pytorch#79171, which need no no_sync()
who: Whoever accumulates gradients with static_graph=True, where some output has no part in the loss.
seen: ^ddp: refused: RuntimeError: Expected to have finished reduction.*\| .*static_graph
"""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.ignored = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.used(x), self.ignored(x)


with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    ddp = DistributedDataParallel(Model(), static_graph=True)
    for _ in range(2):
        ddp(torch.ones(1, 2))[0].sum().backward()
    with ddp.no_sync():
        ddp(torch.ones(1, 2))[0].sum().backward()
    ddp(torch.ones(1, 2))[0].sum().backward()
    assert ddp.module.used.bias.grad.eq(4).all(), "the gradient"
    dist.destroy_process_group()
