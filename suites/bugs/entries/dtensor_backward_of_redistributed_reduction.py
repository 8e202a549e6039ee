r"""backward through a mean, maximum or norm of a sharded tensor fails where the program redistributes it.

kind: internal assertion
expected: The gradients, as where the operator that uses the mean redistributes it.
happens: AssertionError "Redistribution from one partial type (P(sum)) to another (P(avg)) is unsupported".
  The backward of redistribute() gives gradients the placements that its input had; there is no way from
  Partial("sum") to those of a mean, maximum, minimum, product or norm, and a gradient needs none.
fails: internal assertion: AssertionError: .*from one partial type \(P\(sum\)\) to another \(P\(avg\)\)
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#172041 made what had been passed over an error
who: Whoever normalises a sharded tensor by hand: by its mean, its norm, or its largest element for a softmax.
seen: one partial type \(P\(sum\)\) to another \([^|]*\) is unsupported[^|]*\|
    .*(max|min|mean|avg|norm|prod)\w*[()].*redistribute.*backward$
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    torch.set_num_threads(1)  # a forked pool of threads that is used before it is made anew ends torch 2.11
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.arange(4.0), mesh, [Shard(0)]).requires_grad_()
    mean = x.mean().redistribute(mesh, [Replicate()])
    (x * mean).sum().backward()
    found = x.grad.full_tensor().tolist()
    dist.barrier()
    assert found == [3, 3, 3, 3], f"of x times its mean, and not {found}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as file:
        torch.multiprocessing.start_processes(main, (file.name,), nprocs=2, start_method="fork")
