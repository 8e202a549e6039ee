"""all_reduce by MAX or MIN loses a NaN, or keeps it, by which rank has it.

kind: silently wrong
expected: nan wherever a rank has nan, as torch.maximum; or the other number wherever there is one, as
  torch.fmax.
happens: The NaN of rank 0 is kept, and that of rank 1 is lost: the result depends on who has it.
fails: silently wrong: maxima
since: 2.11
reach: public API
fuzzer: probes of collectives
upstream: none found
who: Whoever looks for a NaN on any rank by the maximum of a loss or of gradients.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    nan = float("nan")
    x = torch.tensor([nan, 1.0] if rank == 0 else [1.0, nan])
    dist.all_reduce(x, dist.ReduceOp.MAX)
    assert x.isnan().tolist() in ([True, True], [False, False]), f"maxima: {x.tolist()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
