r"""FSDP.optim_state_dict on the CPU gives another state's numbers for Adam's first moment.

kind: silently wrong
expected: exp_avg is the optimizer's exp_avg, as it is with offload_to_cpu=False.
happens: With the default offload_to_cpu=True, on parameters that are on the CPU already, exp_avg holds
  other numbers: the copy to the CPU is no copy there, and the buffer is used again for the next state.
fails: silently wrong: exp_avg
since: 2.11
reach: public API
fuzzer: none; a test of FSDP1's state dicts beside one process
upstream: none found
who: Whoever saves a checkpoint of FSDP1 on the CPU, most often in tests of what is to run on GPUs.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.fsdp import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    StateDictType,
)


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    torch.manual_seed(0)
    model = FullyShardedDataParallel(nn.Linear(8, 4), use_orig_params=True, device_id=torch.device("cpu"))
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(3, 8)).sum().backward()
    optimizer.step()

    def first_moments(config):
        FullyShardedDataParallel.set_state_dict_type(
            model, StateDictType.FULL_STATE_DICT, FullStateDictConfig(), config
        )
        states = FullyShardedDataParallel.optim_state_dict(model, optimizer)["state"]
        return {name: state["exp_avg"].clone() for name, state in states.items()}

    right = first_moments(FullOptimStateDictConfig(offload_to_cpu=False))
    for name, found in first_moments(FullOptimStateDictConfig()).items():
        assert torch.allclose(found, right[name]), f"exp_avg of {name}: {found} for {right[name]}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
