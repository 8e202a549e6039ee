r"""unflatten of a dimension that two mesh dimensions shard fails.

kind: refused
expected: The tensor of shape (2, 2), or an error that says what to do.
happens: RuntimeError: shape '[1, 2]' is invalid for input of size 1: only one of the mesh dimensions was
  reckoned with.
fails: refused: RuntimeError: shape '\[#, #\]' is invalid for input of size #
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#186282 is of a result whose one dimension two mesh dimensions shard
who: Whoever shards one dimension by data and tensor parallelism.
seen: ^dtensor: refused: RuntimeError: shape '[^|]*' is invalid for input of size[^|]*\|
    .*\.(unflatten|flatten|reshape|view)\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 4), rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (2, 2))
    x = distribute_tensor(torch.arange(4.0), mesh, [Shard(0), Shard(0)])
    assert x.unflatten(-1, (-1, 2)).full_tensor().tolist() == [[0, 1], [2, 3]], "unflatten"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=4, start_method="fork")
