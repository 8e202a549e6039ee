r"""item() of a sum over shards, and an index that is one, are each rank's own part of it.

kind: silently wrong
expected: total.item() is the number that total.full_tensor() holds, and values[total] the element at it; or
  an error that says to reduce the tensor before.
happens: What a rank holds of the sum is read before it is reduced: each rank gets another number and
  another element, or an IndexError. int(), slices and narrow() read it so, too.
fails: silently wrong: element
since: 2.11
reach: public API
fuzzer: dtensor-pairs
upstream: pytorch/pytorch#166638 is of item(), open
who: Whoever counts tokens that are sharded, and prints the count or takes what stands at it.
seen: ^dtensor: refused: AttributeError: 'LocalIntNode' object has no attribute 'guard_int'[^|]*\|
    .*\{0\}\[\{1\}\]
seen: ^dtensor: (internal assertion|refused): IndexError: index # is out of bounds for dimension[^|]*\|
    .*(Partial|sum\(|count_nonzero\(|prod\().*; (.*; )?\{0\}\[\{1\}\]
seen: ^dtensor: silently wrong: (value|shard) of v# differs[^|]*\|
    .*(Partial|sum\(|count_nonzero\(|prod\().*; (.*; )?\{0\}\[\{1\}\]
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    values = distribute_tensor(torch.arange(8), mesh, [Replicate()])
    total = distribute_tensor(torch.tensor([1, 0, 1, 1]), mesh, [Shard(0)]).sum()
    found = values[total].full_tensor().item()
    assert found == 3, f"element {found} for 3"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
