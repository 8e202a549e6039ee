r"""The gradient of mse_loss on even shards is as many times too large as there are ranks.

kind: silently wrong
expected: The gradient of the mean over all elements, 2 * (x - y) / numel, as for plain tensors.
happens: Each rank's elements are divided by the number of those that the rank has: with two ranks the
  gradient is twice what it should be. The loss itself is right.
fails: silently wrong: gradient
since: 2.11
reach: public API
fuzzer: none; a test of losses on DTensors
upstream: none found; pytorch/pytorch#185167 is of nll_loss with weights on a sharded batch
who: Whoever trains with a mean squared error on an output that is sharded over its batch.
seen: ^dtensor: silently wrong: value of v#\.grad differs[^|]*\| [^;]*Shard[^;]*; .*mse_loss\(.*; backward$
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    # The pool of threads that a fork leaves behind is made anew here, by one thread: in torch 2.11 and 2.12
    # the process ends at times where others are the first to ask for it ("Invalid thread pool!").
    torch.set_num_threads(1)
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = torch.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    sharded = distribute_tensor(x.detach(), mesh, [Shard(0)]).requires_grad_()
    zero = torch.zeros(4)
    loss = torch.nn.functional.mse_loss(sharded, distribute_tensor(zero, mesh, [Shard(0)]))
    loss.full_tensor().backward()
    torch.nn.functional.mse_loss(x, zero).backward()
    found = sharded.grad.full_tensor()
    assert torch.allclose(found, x.grad), f"gradient {found.tolist()} for {x.grad.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
