"""A message that is larger than the tensor of recv ends the receiver by SIGABRT.

kind: process dies
expected: recv raises that 16 bytes came for a tensor of 8, and the process goes on or reports it.
happens: gloo throws in a thread of its own, where nobody catches: terminate called, SIGABRT. So does a
  broadcast into a smaller tensor.
fails: process dies: SIGABRT
since: 2.11
reach: public API
fuzzer: probes of collectives
upstream: none found; pytorch/pytorch#87497 is of the same abort for sparse gradients
who: Whoever has two ranks disagree on a shape: one rank is gone without a traceback, and the others say
  that a peer closed its connection.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    if rank == 0:
        dist.send(torch.ones(4), 1)
    else:
        try:
            dist.recv(torch.zeros(2), 0)
        except RuntimeError as error:
            print("right:", error)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
