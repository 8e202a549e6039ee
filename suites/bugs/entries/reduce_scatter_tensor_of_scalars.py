"""reduce_scatter_tensor of 0-dimensional tensors ends the process by SIGSEGV.

kind: process dies
expected: An error that says that a 0-dimensional tensor cannot be split, as all_gather_into_tensor gives.
happens: Each rank dies by SIGSEGV.
fails: process dies: SIGSEGV
since: 2.11
reach: public API
fuzzer: probes of collectives
upstream: none found
who: Whoever reduces a loss, a scalar, by the wrong collective, and then has no traceback.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    try:
        dist.reduce_scatter_tensor(torch.zeros(()), torch.ones(()))
    except (RuntimeError, ValueError, IndexError) as error:
        print("right:", error)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
