r"""A wait with a timeout for a reduce_scatter on gloo has none: it lasts until the others have come.

kind: hangs
expected: RuntimeError: Operation timed out, after the given time, as of an all_reduce; the call goes on.
happens: The work handles of reduce_scatter and reduce_scatter_tensor wait for the calls that they are made
  of, each without a timeout. A rank that would do something else while it waits never gets to it.
fails: hangs
since: 2.11
reach: public API, on gloo
fuzzer: collectives, as it learned of timeouts
upstream: none found; the handle came with pytorch/pytorch#149869
who: Whoever waits for a while and then looks after the ranks that are late.
"""

import tempfile
from datetime import timedelta

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, path):
    store = dist.FileStore(path, 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2, timeout=timedelta(hours=1))
    output, given = torch.zeros(1), torch.ones(2)
    if rank == 0:
        work = dist.reduce_scatter_tensor(output, given, async_op=True)
        try:
            work.wait(timedelta(milliseconds=100))
        except RuntimeError:
            store.set("come", "now")
        work.wait()
    else:
        store.wait(["come"], timedelta(hours=1))
        dist.reduce_scatter_tensor(output, given)
    assert output.item() == 2, f"{output}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
