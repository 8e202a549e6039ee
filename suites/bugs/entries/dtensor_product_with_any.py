r"""any() of a sharded mask counts the ranks that have one where its result is taken for a number.

kind: silently wrong
expected: any() is True or False: the product with it is the number or 0, and float() gives 1.0 or 0.0.
happens: The result says that it is the sum of the ranks' results. What is linear is computed on each rank
  before they are summed up: the product with a number or its quotient, float(), sum(), cat() with what is a
  sum, a copy into it. It is as many times too large as there are ranks with a True.
fails: silently wrong: product
since: 2.12
before: 2.14
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#134206 made the sum the reduction of any
who: Whoever asks any() of a mask that is sharded, and scales or masks by the answer.
seen: ^dtensor: silently wrong: (value|shape) of v# differs[^|]*Partial\(sum\)[^|]*\|
    .*\.any\([^|]*(\* \{| / |\} \+ \{|\.sum\(|\.float\(|_foreach_mul\(|(add|copy)_\(\{|(cat|stack|outer)\()
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    mask, numbers = torch.tensor([True, True]), torch.tensor([5])
    sharded = distribute_tensor(mask, mesh, [Shard(0)])
    found = (sharded.any() * distribute_tensor(numbers, mesh, [Replicate()])).full_tensor()
    right = mask.any() * numbers
    assert torch.equal(found, right), f"product {found.tolist()} for {right.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
