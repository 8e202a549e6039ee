"""all_reduce of a view with the negative bit gives minus the sum of what is stored.

kind: silently wrong
expected: The imaginary part of a conjugate is -2 on each of two ranks, and the sum is -4.
happens: gloo reduces the stored numbers, 2 and 2, into a copy: the tensor stays -2 on each rank.
fails: silently wrong: the sum
since: 2.11
reach: public API
fuzzer: probes of collectives
upstream: none found
who: Whoever reduces the imaginary part of a conjugated tensor; x.conj() itself is refused.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    part = torch.tensor([1 + 2j]).conj().imag
    dist.all_reduce(part)
    assert part.item() == -4, f"the sum: {part}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
