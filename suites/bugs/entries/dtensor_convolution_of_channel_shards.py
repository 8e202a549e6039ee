r"""A convolution of an image that is sharded along its channels fails in the kernel.

kind: refused
expected: The channels are gathered, as other operators gather what they cannot compute on shards.
happens: The kernel gets one rank's channels beside the whole weight: RuntimeError "expected input to have
  2 channels, but got 1 channels instead". (2.11 speaks of the stride of a "tensor parallel convolution".)
fails: refused: RuntimeError: (Given groups=#, weight of size|It requires that input_size)
since: 2.11
reach: public API
fuzzer: none; operators of the database on shards
upstream: none found; pytorch/pytorch#176446 is of shards of the batch
who: Whoever has a convolution follow a layer whose output is sharded along its channels.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    image, weight = torch.ones(1, 2, 8, 8), torch.ones(1, 2, 3, 3)
    found = torch.nn.functional.conv2d(
        distribute_tensor(image, mesh, [Shard(1)]), distribute_tensor(weight, mesh, [Replicate()])
    )
    assert torch.equal(found.full_tensor(), torch.nn.functional.conv2d(image, weight))
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
