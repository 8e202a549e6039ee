r"""A convolution with padding over an image that is sharded along its width gives it no gradient.

kind: silently wrong
expected: The gradient of the convolution of the whole; the weight gets its own.
happens: The function that adds up what the neighbours computed for the edges returns nothing, and the image's
  gradient is None.
fails: silently wrong: no gradient
since: 2.11
reach: public API
fuzzer: none; read beside a test of convolutions
upstream: none found; pytorch/pytorch#191926 is of the placement of the gradient, without padding
who: Whoever trains with images that are sharded along their width.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    image = distribute_tensor(torch.ones(1, 1, 2, 8), mesh, [Shard(3)]).requires_grad_()
    weight = distribute_tensor(torch.ones(1, 1, 1, 3), mesh, [Replicate()]).requires_grad_()
    torch.nn.functional.conv2d(image, weight, padding=(0, 1)).sum().backward()
    assert image.grad is not None, "no gradient of the image"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
