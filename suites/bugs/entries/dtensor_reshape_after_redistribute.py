r"""reshape of what was redistributed between uneven shards fails: the local tensor is not contiguous.

kind: refused
expected: The eight elements in one dimension, as without the redistribution: reshape copies where it must.
happens: RuntimeError: view size is not compatible with input tensor's size and stride: what was padded for
  the exchange is cut to its size, a strided view, and DTensor's reshape takes a view of the local tensor.
  2.11 says of any such reshape that it "cannot be performed without redistribution".
fails: refused: RuntimeError: (view size is not compatible|\('Attempted to flatten multiple dimensions)
since: 2.11
reach: public API
fuzzer: dtensor
upstream: pytorch/pytorch#143748, of a linear layer on such a tensor; PR #184443 mends it for Replicate()
who: Whoever moves a shard to a dimension that does not divide evenly, and flattens or feeds a linear layer.
seen: ^dtensor: refused: RuntimeError: view size is not compatible[^|]*\|
    [^;]*uneven[^;]*; .*redistribute; (.*; )?\{0\}\.(reshape|flatten|unflatten|view)\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 4), rank=rank, world_size=4)
    mesh = init_device_mesh("cpu", (4,))
    whole = torch.arange(8.0).reshape(2, 2, 2)
    moved = distribute_tensor(whole, mesh, [Shard(1)]).redistribute(placements=[Shard(2)])
    found = moved.reshape(-1).full_tensor()
    assert torch.equal(found, whole.reshape(-1)), f"reshape: {found}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=4, start_method="fork")
