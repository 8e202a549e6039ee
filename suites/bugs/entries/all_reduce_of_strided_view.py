"""all_reduce of a strided view reduces the memory beside it, and not the view.

kind: silently wrong
expected: Each element of the view is the sum of both ranks', 2 and 2, and the elements between them stay 1.
happens: gloo takes the address and the number of elements as if they lay in a row: the first half of the
  memory is reduced, the elements between included; the second half of the view is not.
fails: silently wrong: memory
since: 2.11
reach: public API
fuzzer: c10d.test_collective_layouts and probes
upstream: pytorch/pytorch#192920 has scatter, broadcast and reduce
who: Whoever reduces columns, every second element or a part of a fused buffer on gloo.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    memory = torch.ones(8)
    dist.all_reduce(memory[::2])
    assert memory.tolist() == [2, 1] * 4, f"memory: {memory.tolist()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
