r"""With static_graph=True an output that is not in the loss makes the gradients of the second step wrong.

kind: silently wrong
expected: Each step averages the gradients of the ranks. static_graph allows parameters without a gradient, as
  long as they are the same ones in each step.
happens: From the second step on each rank has its own gradients. The module returns an output that the loss
  does not use, and the parameters that made it have no gradient. The third step fails: RuntimeError "Expected
  to have finished reduction in the prior iteration"; so does what follows a backward under no_sync().
fails: silently wrong: gradient
since: 2.11
reach: public API
fuzzer: ddp
upstream: pytorch/pytorch#97030 and pytorch/pytorch#79171
who: Whoever trains with static_graph=True a model that returns more than its loss takes.
seen: ^ddp: silently wrong: [^|]*\| (?=.*\boutput;).*static_graph
seen: ^ddp: refused: RuntimeError: Expected to have finished reduction[^|]*\| (?=.*\boutput;).*static_graph
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
        self.used, self.other = nn.Linear(2, 2), nn.Linear(2, 2)

    def forward(self, x):
        h = self.used(x)
        return h, self.other(h)


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    ddp = DistributedDataParallel(Model(), static_graph=True)
    for _ in range(2):
        ddp.zero_grad()
        ddp(torch.full((1, 2), float(rank)))[0].sum().backward()
    found = ddp.module.used.weight.grad
    assert torch.equal(found, torch.full((2, 2), 0.5)), f"gradient {found.tolist()} for the mean, 0.5"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
