r"""A number added to a DTensor counts once a rank, after a replicated scalar was added to one like it.

kind: silently wrong
expected: total + 2 is the total and 2, whatever was computed before.
happens: Where a replicated scalar tensor of the number's type was added to a tensor of that shape and
  placement before, the sum that is not reduced yet stays one, and each rank adds the 2: 10 for 8 on two
  ranks. The other way round the scalar tensor fails: 'int' object has no attribute 'mesh'. To the cache
  of sharding decisions a number is a replicated scalar tensor, but what it decides of the one does not hold
  for the other. So it is for differences, for products and quotients with a maximum, and for other types.
fails: silently wrong: sum
since: 2.11
reach: public API
fuzzer: dtensor-pairs
upstream: none found; pytorch/pytorch#170030 made numbers reduce sums, #147180 is of a cached number
who: Whoever adds a number to a tensor that is to be reduced, where a scalar tensor was added to one before.
seen: ^dtensor: internal assertion: AttributeError: '(int|float|bool)' object has no attribute 'mesh'
seen: ^dtensor: silently wrong: value of v# differs, \([^|]*Partial\(sum\)[^|]*\| .*\} \+ 1(;|$)
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import DTensor, Partial, Replicate, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    total = DTensor.from_local(torch.tensor([3.0]), mesh, [Partial()])
    first = total + distribute_tensor(torch.tensor(2), mesh, [Replicate()])
    assert first.full_tensor().item() == 8
    found = (total + 2).full_tensor().item()
    assert found == 8, f"sum {found} for 8"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
