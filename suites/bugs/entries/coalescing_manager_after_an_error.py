"""After an error in a coalescing block every collective of the group does nothing.

kind: silently wrong
expected: The block raises that gloo has no startCoalescing, and the group works on: an all_reduce of ones
  on two ranks gives 2.
happens: The group goes on collecting: all_reduce returns at once and changes nothing.
fails: silently wrong: the sum
since: 2.11
reach: internal entry: _coalescing_manager, of which batch_isend_irecv and FSDP make use
fuzzer: c10d.test_coalesced_collectives
upstream: none found
who: Whoever catches the error of one block, as for a fallback, and goes on training.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    try:
        with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu")):
            dist.all_reduce(torch.ones(1))
    except RuntimeError as error:
        print("refused:", error)
    x = torch.ones(1)
    dist.all_reduce(x)
    assert x.item() == 2, f"the sum: {x.item()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
