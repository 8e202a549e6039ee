r"""FSDP2 has no backward for a module with a parameter of no elements.

kind: refused
expected: The module trains as it does alone and under DDP: a parameter of no elements has nothing to be
  reduced, and ranks have shards without elements of every parameter with fewer rows than there are ranks.
happens: "_chunk_cat expects non-empty tensor", in the backward, as gradients are copied for the
  reduce-scatter; the forward has passed, and so do other parameters of the same unit alone.
fails: refused: RuntimeError: _chunk_cat expects non-empty tensor
since: 2.11
reach: public API
fuzzer: fsdp
upstream: none found
who: Whoever shards a model in which a size may be zero: a Linear of no outputs, an adapter of rank 0, an
  empty vocabulary.
seen: ^fsdp: refused: RuntimeError: _chunk_cat expects non-empty tensor \| ([^|]*; )?empty;
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.fsdp import fully_shard

WORLD = 2


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.some = torch.nn.Linear(4, 4)
        self.none = torch.nn.Linear(4, 0)

    def forward(self, x):
        return self.some(x).sum() + self.none(x).sum()


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    model = Model()
    fully_shard(model)
    model(torch.ones(3, 4)).backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
