r"""The mean of nll_loss with weights is wrong, where the batch is sharded.

kind: silently wrong
expected: The sum of the weighted losses by the sum of all their weights, as for plain tensors and as
  documented.
happens: Each rank divides by the weights of its own targets, and the mean of these quotients is taken: 3 for
  2.5. So it is for cross_entropy.
fails: silently wrong: loss
since: 2.11
reach: public API
fuzzer: none; found beside an entry of loss_parallel
upstream: pytorch/pytorch#185167, open
who: Whoever trains with classes of unlike weight on DTensors that are sharded by samples.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    torch.set_num_threads(1)  # a forked pool of threads, used before it is made anew, ends 2.11 and 2.12
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    scores = distribute_tensor(torch.tensor([[-4.0, 0.0], [0.0, -2.0]]), mesh, [Shard(0)])
    target = distribute_tensor(torch.tensor([0, 1]), mesh, [Shard(0)])
    weight = distribute_tensor(torch.tensor([1.0, 3.0]), mesh, [Replicate()])
    found = torch.nn.functional.nll_loss(scores, target, weight).full_tensor().item()
    assert found == 2.5, f"loss {found} for 2.5"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
