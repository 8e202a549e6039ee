r"""FSDP.state_dict_type does not set the type back when its block is left by an error.

kind: silently wrong
expected: A context manager undoes what it did however its block ends.
happens: After an exception in the block the modules keep the block's type, and the next state_dict() is
  of another kind than the one that was set before.
fails: silently wrong: state_dict_type
since: 2.11
reach: public API
fuzzer: none; a test of FSDP1's state dicts after an exception
upstream: none found
who: Whoever catches the error of a failed checkpoint and goes on training.
"""

import contextlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    model = FullyShardedDataParallel(nn.Linear(8, 4), use_orig_params=True, device_id=torch.device("cpu"))
    before = FullyShardedDataParallel.get_state_dict_type(model).state_dict_type
    sharded = FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT)
    with contextlib.suppress(ValueError), sharded:
        raise ValueError
    after = FullyShardedDataParallel.get_state_dict_type(model).state_dict_type
    assert after == before, f"state_dict_type: {after} for {before}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
