r"""The backward of a matrix by a batch of matrices fails where shards of what it folds are uneven.

kind: refused
expected: Gradients, as for plain tensors.
happens: RuntimeError: shape '[3, 1]' is invalid for input of size 4. The gradient of the folded product is
  viewed on each rank with a shape that a rank's shard has not.
fails: refused: RuntimeError: shape '\[#, #\]' is invalid for input of size #
since: 2.12
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#143372 is of view() of uneven shards, open
who: Whoever multiplies an activation that is sharded by features with weights of several heads or experts.
seen: ^dtensor: refused: RuntimeError: shape '[^|]*' is invalid for input of size[^|]*\|
    [^;]*uneven Shard.* @ .*; backward
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    torch.set_num_threads(1)  # a forked pool of threads, used before it is made anew, ends 2.11 and 2.12
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (1, 2))
    x = distribute_tensor(torch.ones(1, 2), mesh, [Replicate(), Shard(1)]).requires_grad_()
    heads = distribute_tensor(torch.ones(3, 2, 2), mesh, [Shard(0), Replicate()])
    (x @ heads).square().sum().full_tensor().backward()
    assert x.grad.full_tensor().tolist() == [[24.0] * 2], "gradient"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
