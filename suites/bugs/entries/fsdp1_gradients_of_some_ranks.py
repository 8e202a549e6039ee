r"""FSDP1 gathers whole gradients in float32 from ranks that have none, beside others of another dtype.

kind: process dies
expected: summon_full_params(with_grads=True) gives the whole gradients, with zeros for a part that has none.
happens: A rank whose shard holds frozen parameters alone, or nothing, has no gradient, and gives
  zeros of float32, whatever the others give: gloo aborts the process.
fails: process dies: SIGABRT
since: 2.11
reach: public API
fuzzer: fsdp1
upstream: pytorch/pytorch#112717 for bfloat16, closed
who: Whoever looks at the gradients of a model with frozen parameters that is not in float32.
seen: ^fsdp1: process dies: rank # gives \(#,\) \S+ in all_gather[^|]*\| [^|]*(frozen|tiny)
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.fsdp import FullyShardedDataParallel

WORLD = 2


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    module = torch.nn.Linear(4, 4, dtype=torch.float64)
    module.weight.requires_grad_(False)
    model = FullyShardedDataParallel(module, use_orig_params=True, device_id=torch.device("cpu"))
    model(torch.ones(3, 4, dtype=torch.float64)).sum().backward()
    with FullyShardedDataParallel.summon_full_params(model, writeback=False, with_grads=True):
        pass
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
