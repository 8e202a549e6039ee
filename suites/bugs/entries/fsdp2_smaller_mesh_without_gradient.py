r"""FSDP2 that reshards to a part of the ranks fails in the second micro-batch where a unit gets no gradient.

kind: refused
expected: The second batch is like the first.
happens: "split_with_sizes expects split_sizes to sum exactly to ...", with reshard_after_forward=2 of
  four ranks and set_is_last_backward(False): the unit was gathered for a backward that it did not have,
  and what came of that is met by the next forward.
fails: refused: RuntimeError: split_with_sizes expects split_sizes to sum exactly
since: 2.11
reach: public API
fuzzer: fsdp
upstream: none found
who: Whoever accumulates gradients over micro-batches, with a detached unit that is kept within a host.
seen: ^fsdp: refused: RuntimeError: split_with_sizes expects split_sizes to sum exactly [^|]*\| [^|]*reshard=2
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

WORLD = 4


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)

    def forward(self, x):
        h = self.first(x)
        return h + self.second(h).detach()


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    model, mesh = Model(), init_device_mesh("cpu", (WORLD,))
    fully_shard(model.second, mesh=mesh, reshard_after_forward=2)
    fully_shard(model, mesh=mesh)
    for last in (False, True):
        model.set_is_last_backward(last)
        model(torch.ones(3, 4)).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
