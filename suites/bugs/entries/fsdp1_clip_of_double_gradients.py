r"""FSDP1's clip_grad_norm_ refuses gradients of float64.

kind: refused
expected: The gradients are clipped, and the norm has the largest dtype of the gradients, as the method's
  documentation says; torch.nn.utils.clip_grad_norm_ does so.
happens: "linalg.vector_norm: the dtype of the input (Double) should be convertible without narrowing": each
  norm is taken in float32, whatever the gradients are.
fails: refused: RuntimeError: linalg.vector_norm: the dtype of the input
since: 2.11
reach: public API
fuzzer: fsdp1
upstream: none found; pytorch/pytorch#65108 asks for the norm in full precision
who: Whoever trains in float64, or tests against a reference in it.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.fsdp import FullyShardedDataParallel

WORLD = 2


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    model = FullyShardedDataParallel(
        torch.nn.Linear(4, 4, dtype=torch.float64), device_id=torch.device("cpu")
    )
    model(torch.ones(3, 4, dtype=torch.float64)).sum().backward()
    model.clip_grad_norm_(1.0)
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
