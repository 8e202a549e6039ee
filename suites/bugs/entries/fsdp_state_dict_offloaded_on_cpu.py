r"""FSDP.state_dict with offload_to_cpu on the CPU ends the process by SIGSEGV.

kind: process dies
expected: The full state dict: the copy to the CPU is nothing more where the parameters are there already.
happens: SIGSEGV, with or without rank0_only: the full parameters are "written back" from freed memory.
  With use_orig_params=False it is a RuntimeError, "out of bounds for storage of size 0".
fails: process dies: (SIGSEGV|signal 11)
since: 2.11
before: 2.14
reach: public API
fuzzer: none; a test of FSDP1's state dicts beside one process
upstream: pytorch/pytorch#188989, of summon_full_params with the same option
who: Whoever saves a checkpoint of FSDP1 on the CPU with the configuration that is usual for GPUs.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.fsdp import FullStateDictConfig, FullyShardedDataParallel, StateDictType


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    model = FullyShardedDataParallel(nn.Linear(8, 8), use_orig_params=True, device_id=torch.device("cpu"))
    config = FullStateDictConfig(offload_to_cpu=True, rank0_only=True)
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.FULL_STATE_DICT, config):
        model.state_dict()
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
