r"""FSDP1 has no optimizer state dict where a parameter has no elements.

kind: refused
expected: The state dict, as without FSDP: the parameter is trained like others, and its state is empty.
happens: "weight is not in the optimizer state": no rank has a part of the parameter, so none tells of it.
  Of Adam, whose state holds tensors of no elements, the "step" is lost alone, and loading it is a KeyError.
fails: refused: RuntimeError: \S* ?is not in the optimizer state
since: 2.11
reach: public API
fuzzer: fsdp1
upstream: none found
who: Whoever writes checkpoints of a model in which a layer's size may be 0.
seen: ^fsdp1: refused: RuntimeError: \S*empty\S* is not in the optimizer state[^|]*\| [^|]*orig[^|]*restores
seen: ^fsdp1: internal assertion: KeyError: 'step'[^|]*\| [^|]*empty[^|]*orig[^|]*adam[^|]*restores
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
from torch.distributed.fsdp import FullyShardedDataParallel

WORLD = 2


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 0, bias=False))
    model = FullyShardedDataParallel(module, use_orig_params=True, device_id=torch.device("cpu"))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    model(torch.ones(3, 4)).sum().backward()
    optimizer.step()
    get_optimizer_state_dict(model, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
