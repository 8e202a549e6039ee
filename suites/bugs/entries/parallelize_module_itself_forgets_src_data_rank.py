r"""parallelize_module forgets src_data_rank for a style that stands under the key "".

kind: silently wrong
expected: With src_data_rank=None each rank keeps its own part, as for a style under a child's name or alone.
happens: The module itself is parallelized with the default, 0: rank 0's weights are scattered to all others,
  by communication that was not wanted.
fails: silently wrong: key
since: 2.11
reach: public API
fuzzer: none; read beside a test of plans
upstream: none found; pytorch/pytorch#144005 added the argument
who: Whoever loads each rank's part of a checkpoint and has a style for the root module in the plan.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, parallelize_module


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    for key in ("0", ""):
        layer = torch.nn.Linear(1, 2, bias=False)
        torch.nn.init.constant_(layer.weight, rank)
        module = layer if key == "" else torch.nn.Sequential(layer)
        parallelize_module(module, mesh, {key: ColwiseParallel()}, src_data_rank=None)
        own = layer.weight.to_local().tolist()
        assert own == [[rank]], f"key {key!r}, rank {rank}: {own}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
