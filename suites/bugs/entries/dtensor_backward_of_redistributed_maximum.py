r"""backward through the maximum of a sharded tensor fails where that is redistributed by the program itself.

kind: internal assertion
expected: The gradients, as where the operator that takes the maximum redistributes it.
happens: AssertionError "Redistribution from one partial type (P(sum)) to another (P(max)) is unsupported".
  The backward of redistribute() gives gradients the placements that its input had; there is no way from
  Partial("sum") to Partial("max"), and a gradient needs none.
fails: internal assertion: AssertionError: .*from one partial type \(P\(sum\)\) to another \(P\(max\)\)
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#172041 made what had been passed over an error
who: Whoever writes a softmax or a scaling by the largest element on a sharded tensor by hand.
seen: one partial type \(P\(sum\)\) to another \(P\(m\w+\)\)[^|]*\| .*\ba?m(ax|in)\(.*redistribute.*backward$
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
    top = x.max().redistribute(mesh, [Replicate()])
    (x * top).sum().backward()
    found = x.grad.full_tensor().tolist()
    dist.barrier()
    assert found == [3, 3, 3, 9], f"of x times its maximum, and not {found}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.NamedTemporaryFile() as file:
        torch.multiprocessing.start_processes(main, (file.name,), nprocs=2, start_method="fork")
