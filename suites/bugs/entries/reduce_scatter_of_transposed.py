"""reduce_scatter reduces transposed tensors in the order of their memory.

kind: silently wrong
expected: Each rank gets the sum of its tensors of the lists, whatever the strides; reduce_scatter_tensor
  does that.
happens: The numbers are reduced in the order of memory, and the result has the matrix mixed up.
fails: silently wrong: the matrix
since: 2.11
reach: public API
fuzzer: c10d.test_collective_layouts and probes
upstream: pytorch/pytorch#192920 has scatter, broadcast and reduce
who: Whoever reduces and scatters a list of slices or transposes on gloo.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    matrix = torch.arange(6.0).reshape(2, 3)
    out = torch.zeros(3, 2)
    dist.reduce_scatter(out, [matrix.t(), matrix.t()])
    assert torch.equal(out, 2 * matrix.t()), f"the matrix: {out.tolist()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
