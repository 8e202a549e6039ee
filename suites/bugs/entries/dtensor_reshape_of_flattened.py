r"""reshape of a tensor that was flattened over a sharded dimension exchanges its elements.

kind: silently wrong
expected: The elements in the order of the whole, whatever is sharded.
happens: flatten over (3, 4), sharded along the 4, gives a strided shard, which is right. Its reshape to
  (2, 6) keeps the stride, though each row has another part of it, and the elements come in another order.
fails: silently wrong: reshape
since: 2.12
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#179502 is of a view without flatten() before it
who: Whoever flattens dimensions of which an inner one is sharded, and gives the result another shape.
seen: ^dtensor: silently wrong: value of v# differs[^|]*_StridedShard[^|]*\|
    .*\.(flatten|reshape|view)\(.*\.(reshape|view|unflatten)\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    rows = torch.arange(12).reshape(3, 4)
    try:
        found = distribute_tensor(rows, mesh, [Shard(1)]).flatten().reshape(2, 6).full_tensor()
    except RuntimeError:  # 2.11 says that it does not support this
        return
    right = rows.reshape(2, 6)
    assert torch.equal(found, right), f"reshape {found.tolist()} for {right.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
