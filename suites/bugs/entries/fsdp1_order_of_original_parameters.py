r"""FSDP1's check of the order of modules fails to name parameters with use_orig_params.

kind: internal assertion
expected: "Forward order differs across ranks: rank 0 is all-gathering parameters for" these "while rank 1
  is" for those, as without use_orig_params.
happens: KeyError with the values of a parameter: the names are looked up by the flat one, which is among the
  module's parameters only without use_orig_params. In later steps, where the check warns, it has no names.
fails: internal assertion: KeyError: Parameter containing
since: 2.11
reach: public API
fuzzer: none; a test of FSDP1's order of execution
upstream: none found
who: Whoever looks for the module that only some ranks call, by the variable that is to find it.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.fsdp import FullyShardedDataParallel


class Choice(torch.nn.ModuleList):
    def forward(self, x, place):
        return self[place](x)


def wrapped(module):
    return FullyShardedDataParallel(module, device_id=torch.device("cpu"), use_orig_params=True)


def main(rank, path):
    dist.set_debug_level(dist.DebugLevel.DETAIL)  # as TORCH_DISTRIBUTED_DEBUG=DETAIL
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    module = wrapped(Choice(wrapped(torch.nn.Linear(2, 2)) for _ in range(2)))
    try:
        module(torch.ones(1, 2), rank)
    except RuntimeError as error:
        assert "rank 1 is all-gathering" in " ".join(str(error).split()), f"it says {error}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
