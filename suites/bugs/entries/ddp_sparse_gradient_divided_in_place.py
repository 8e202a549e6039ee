"""DDP divides a sparse gradient in place, and with it the gradient that flows on to other parameters.

kind: silently wrong
expected: The gradient of scale is the mean over the ranks, 1.
happens: It is 0.5. The values of the embedding's gradient are in the memory of the gradient of its output,
    from which scale's gradient is computed afterwards; DDP divides them by the number of ranks there.
fails: silently wrong: the gradient
since: 2.11
reach: public API
fuzzer: ddp
upstream: none found; pytorch/pytorch#34904 notes in its review that the division is in place
who: Whoever adds a sparse embedding to something with parameters, as models add embeddings of positions.
seen: ^ddp: silently wrong: gradient of [^|]*\\| (?!.*static_graph)([^|]*; )?sparse;
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
        self.scale = nn.Linear(2, 2)
        self.embedding = nn.Embedding(3, 2, sparse=True)

    def forward(self, x):
        return self.scale(x) + self.embedding(torch.tensor([0]))


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    ddp = DistributedDataParallel(Model())
    (ddp(torch.ones(1, 2)) * torch.ones(1, 2)).sum().backward()
    grad = ddp.module.scale.bias.grad
    assert grad.tolist() == [1, 1], f"the gradient: {grad}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
