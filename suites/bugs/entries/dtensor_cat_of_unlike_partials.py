r"""cat of the sum and the maximum of a sharded tensor fails.

kind: internal assertion
expected: Both in one tensor: cat() has them reduced first, as other operators do.
happens: AssertionError "Redistribution from one partial type (P(max)) to another (P(sum)) is unsupported":
  the result is to be partial as the first is, and nothing makes the second so. So do stack(), copy_() and
  add_() fail on sums, means, maxima, minima, products or norms beside each other.
fails: internal assertion: AssertionError: .*from one partial type \(P\(max\)\) to another \(P\(sum\)\)
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#172041 made what had been passed over an error
who: Whoever gathers statistics of sharded tensors in one.
seen: ^dtensor: internal assertion: AssertionError: Redistribution from one partial type \([^|]*\) to another
    \([^|]*\) is unsupported[^|]*\| .*((cat|stack)\(|(add|copy)_\(\{)
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = torch.arange(4.0).reshape(2, 2)
    sharded = distribute_tensor(x, mesh, [Shard(0)])
    found = torch.cat([sharded.sum(0), sharded.amax(0)]).full_tensor()
    right = torch.cat([x.sum(0), x.amax(0)])
    assert torch.equal(found, right), f"cat {found.tolist()} for {right.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
