r"""A replicated tensor of integers that is added to the sum of shards gives floating numbers.

kind: silently wrong
expected: The sum of integers, a tensor of int64, as of plain tensors.
happens: The result is of float32. To be added on each rank before the ranks' sums are summed up, the
  replicated tensor is divided by their number, which makes floating numbers of integers and booleans. So it
  is for the difference, cat(), stack() and linear(); add_() and addmm() fail on it, and copy_() into such a
  sum cuts off what is behind the point: of 1 the ranks write 0.
fails: silently wrong: dtype
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#110898 brought the division, pytorch/pytorch#175317, closed, avoided it
who: Whoever counts tokens that are sharded, and adds a number that each rank has.
seen: ^dtensor: silently wrong: dtype of v# differs: torch\.float#, but torch\.(int#|bool) in plain \|
    .*((sum|count_nonzero|any|dot|bmm|linear|addmm)\(| @ ).*; (.*; )?[^;]*([+-] \{|cat\(|stack\(|linear\()
seen: ^dtensor: silently wrong: dtype of v# differs: torch\.float#, but torch\.int# in plain \|
    .*linear\(\{0\}, \{1\}, \{2\}\)
seen: ^dtensor: silently wrong: dtype of v# differs: torch\.float#, but torch\.float# in plain \|
    ([^;]*Partial\(sum\)|.*\.sum\().*> 0\.3.*; (.*; )?[^;]*[+-] \{
seen: ^dtensor: silently wrong: value of v# differs[^|]*Partial\(sum\)[^|]*\|
    .*((sum|count_nonzero|dot|bmm|linear|addmm)\(| @ ).*copy_\(\{
seen: ^dtensor: refused: RuntimeError: result type Float can't be cast to the desired output type (Long|Bool)
    [^|]*\| .*add_\(\{
seen: ^dtensor: refused: RuntimeError: (self|mat#) and mat# must have the same dtype, but got Float and
    Long[^|]*\| .*(addmm\(|linear\(\{0\}, \{1\}, \{2\}\))
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    numbers, one = torch.arange(4), torch.tensor(1)
    total = distribute_tensor(numbers, mesh, [Shard(0)]).sum()
    found = total + distribute_tensor(one, mesh, [Replicate()])
    assert found.dtype == torch.int64, f"dtype {found.dtype} for torch.int64"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
