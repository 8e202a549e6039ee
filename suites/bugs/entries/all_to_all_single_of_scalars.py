"""all_to_all_single of 0-dimensional tensors gives what is in memory.

kind: silently wrong
expected: An error: one element cannot be split among two ranks. For a tensor of one dimension that is said.
happens: Nothing is refused. Rank 0 gets 0, and rank 1 gets whatever is in memory behind the tensor.
fails: silently wrong: a scalar
since: 2.11
before: 2.14
reach: public API
fuzzer: probes of collectives
upstream: pytorch/pytorch#101380, the check that is left out; pytorch/pytorch#191511 adds it
who: Whoever exchanges scalars by the wrong collective.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    out = torch.full((), -1.0)
    try:
        dist.all_to_all_single(out, torch.ones(()))
    except (RuntimeError, ValueError, IndexError) as error:
        print("right:", error)
    else:
        raise AssertionError(f"a scalar was split among two ranks: {out}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
