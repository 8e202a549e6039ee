r"""A convolution of an image that is sharded along its height or width gives a smaller result.

kind: silently wrong
expected: The convolution of the whole, by an exchange of the edges or a redistribution; or an error, if such
  shards are not supported.
happens: Each rank convolves its part alone, without its neighbours' edges, and the result says that it is
  replicated: the ranks hold different tensors, of a smaller size. conv1d and conv2d, with padding or without.
fails: silently wrong: conv#d
since: 2.12
reach: public API
fuzzer: none; operators of the database on shards
upstream: none found; pytorch/pytorch#191926 is of the gradient, pytorch/pytorch#186129 of channels in groups
who: Whoever shards images along space, as spatial parallelism does.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    image, weight = torch.ones(1, 1, 8, 8), torch.ones(1, 1, 3, 3)
    sharded = distribute_tensor(image, mesh, [Shard(2)]), distribute_tensor(weight, mesh, [Replicate()])
    try:
        found = torch.nn.functional.conv2d(*sharded)
    except RuntimeError:  # 2.11 says that it does not support this
        return
    whole = found.full_tensor()
    right = torch.nn.functional.conv2d(image, weight)
    assert whole.shape == right.shape, f"conv2d {tuple(whole.shape)} for {tuple(right.shape)}: {found}"
    assert torch.equal(whole, right), f"conv2d {whole} for {right}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
