r"""The largest absolute value of a tensor that is the maximum of the ranks' is that of one rank's numbers.

kind: silently wrong
expected: The norm of the maximum.
happens: vector_norm() takes absolute values of each rank's numbers before the maximum is taken: the smaller
  of two negative numbers, which the maximum drops, is the larger by its absolute value.
fails: silently wrong: norm
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever bounds by their norm what ranks join by its maximum.
seen: ^dtensor: silently wrong: value of v# differs[^|]*\| .*Partial\((max|min)\).*norm\([^;]*inf
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import DTensor, Partial, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = DTensor.from_local(torch.tensor([-3.0 - rank]), mesh, [Partial("max")])
    found = torch.linalg.vector_norm(x, ord=float("inf")).full_tensor().item()
    assert found == 3, f"norm {found} of {x.full_tensor().tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
