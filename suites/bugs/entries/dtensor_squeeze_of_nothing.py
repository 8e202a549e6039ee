r"""squeeze of a dimension of size 0 moves the shards of those behind it, and full_tensor() has another shape.

kind: silently wrong
expected: Only dimensions of size 1 go: a tensor of shape (0, 4), sharded along 1, is the same afterwards.
happens: Its placement is Shard(0), as if dimension 0 were gone, and full_tensor() has the shape (0, 2).
fails: silently wrong: the shape
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found (looked up)
who: Whoever squeezes a batch that may be empty, under tensor parallelism.
seen: ^dtensor: silently wrong: shape of v#\.full_tensor\(\) differs[^|]*\| (.*; )?\{0\}\.squeeze\(0?\)
seen: ^dtensor: refused: RuntimeError: Sizes of tensors must match except in dimension[^|]*\|
    (.*; )?\{0\}\.squeeze_?\(0?\)
seen: ^dtensor: refused: RuntimeError: narrow unexpectedly changed concrete size[^|]*\|
    (.*; )?\{0\}\.squeeze_?\(0?\)
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(0, 4), mesh, [Shard(1)]).squeeze(0)
    whole = x.full_tensor()
    assert whole.shape == (0, 4), f"the shape: {tuple(whole.shape)}, {x.placements}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
