r"""FSDP1 cannot wrap a module whose parameters have no elements.

kind: internal assertion
expected: It wraps the module, as it does one that has a parameter without elements beside others.
happens: "unsharded_start_idx: 0 unsharded_end_idx: -1".
fails: internal assertion: AssertionError: unsharded_start_idx
since: 2.11
reach: public API
fuzzer: fsdp1
upstream: none found
who: Whoever wraps modules by a policy in a model where a layer's size may be 0.
seen: ^fsdp1: internal assertion: AssertionError: unsharded_start_idx[^|]*\| [^|]*empty
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.fsdp import FullyShardedDataParallel

WORLD = 2


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    FullyShardedDataParallel(torch.nn.Linear(4, 0, bias=False), device_id=torch.device("cpu"))
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
