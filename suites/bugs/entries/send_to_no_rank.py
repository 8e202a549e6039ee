"""send to a rank that is not in the group ends the process by SIGSEGV, or waits for the timeout.

kind: process dies
expected: A ValueError that says that there is no rank 5 among 2, as broadcast, reduce, gather and scatter
  give for their root.
happens: gloo takes the connection behind the end of its list: SIGSEGV, or a wait until the timeout, half an
  hour by default.
fails: process dies: SIG|silently wrong: rank # among # was waited for
since: 2.11
reach: public API
fuzzer: probes of collectives
upstream: none found; pytorch/pytorch#83912 is of a rank that sends to itself
who: Whoever computes the peer of a pipeline stage wrongly: the last stage hangs in place of an error.
"""

import datetime
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing

SHORT = datetime.timedelta(seconds=3)


def main(rank, directory):
    dist.init_process_group(
        "gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2, timeout=SHORT
    )
    try:
        dist.send(torch.ones(1), 5)
    except (RuntimeError, ValueError) as error:
        assert "timeout" not in str(error).lower(), f"rank 5 among 2 was waited for: {error}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
