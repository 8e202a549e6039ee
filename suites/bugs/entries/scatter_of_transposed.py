"""scatter sends and writes transposed tensors in the order of their memory.

kind: silently wrong
expected: Each rank gets its tensor of the list, whatever the strides; gather and all_gather do that.
happens: The numbers are sent in the order of memory, and the receiver has the matrix mixed up.
fails: silently wrong: the matrix
since: 2.11
reach: public API
fuzzer: c10d.test_collective_layouts and probes
upstream: pytorch/pytorch#24836, pytorch/pytorch#192920
who: Whoever scatters slices or transposes of a weight on gloo.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    matrix = torch.arange(6.0).reshape(2, 3)
    out = torch.zeros(3, 2)
    dist.scatter(out, [matrix.t(), matrix.t()] if rank == 0 else None, 0)
    assert torch.equal(out, matrix.t()), f"the matrix: {out.tolist()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
