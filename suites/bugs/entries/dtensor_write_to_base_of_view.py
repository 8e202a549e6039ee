r"""A view that was redistributed does not see a write to its base.

kind: silently wrong
expected: The view shows the doubled numbers, as of plain tensors; at the least an error.
happens: It keeps the old ones: the view of a sharded dimension is made of a gathered copy.
fails: silently wrong: the view
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#139735 is of a write to such a view, which its base does not see
who: Whoever writes to a tensor in place of which a part is in use.
seen: ^dtensor: silently wrong: (value|shard) of v# differs[^|]*\| (.*; )?\{0\}(\[|\.\w+[^_(]\()[^;]*;
    (.*; )?[^;]*(\w_\(|out=)
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(4, 4), mesh, [Shard(0)])
    view = x[1:]
    x.mul_(2)
    assert view.full_tensor().eq(2).all(), f"the view: {view.full_tensor()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
