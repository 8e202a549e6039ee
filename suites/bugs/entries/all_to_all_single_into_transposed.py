"""all_to_all_single writes a transposed output in the order of its memory.

kind: silently wrong
expected: The rows from rank 0 and then those from rank 1, as all_gather_into_tensor gives, or a refusal as
  for an input that is not contiguous.
happens: The numbers are written one after another into the memory of the output: the rows are mixed up.
fails: silently wrong: rows
since: 2.11
reach: public API
fuzzer: c10d.test_collective_layouts and probes
upstream: pytorch/pytorch#192920 has scatter, broadcast and reduce
who: Whoever exchanges into a transposed buffer, as for expert or sequence parallelism.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    out = torch.zeros(3, 2).t()
    dist.all_to_all_single(out, torch.arange(6.0).reshape(2, 3))
    assert out.tolist() == [[3.0 * rank, 3.0 * rank + 1, 3.0 * rank + 2]] * 2, f"rows: {out.tolist()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
