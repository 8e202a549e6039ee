r"""FSDP1 without a mesh divides by zero as it loads the sharded state dict of a parameter without elements.

kind: internal assertion
expected: It loads what it has written itself, as it does with device_mesh=, where shards are DTensors.
happens: ZeroDivisionError: the size of a rank's shard is reckoned by the elements of a row, for which the
  parameter's are divided by its rows.
fails: internal assertion: ZeroDivisionError: integer (division or )?modulo by zero
since: 2.11
reach: public API
fuzzer: none; state dicts of modules with empty parameters
upstream: none found
who: Whoever loads sharded checkpoints of a model in which a layer's size may be 0.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.fsdp import FullyShardedDataParallel, StateDictType

WORLD = 2


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 0, bias=False))
    model = FullyShardedDataParallel(module, device_id=torch.device("cpu"))
    with FullyShardedDataParallel.state_dict_type(model, StateDictType.SHARDED_STATE_DICT):
        model.load_state_dict(model.state_dict())
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
