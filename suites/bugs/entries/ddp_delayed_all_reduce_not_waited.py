"""Nobody waits for the all-reduce of DDP's delay_all_reduce_named_params: backward returns before it is done.

kind: silently wrong
expected: After backward the gradient of the delayed parameter is the mean over the ranks, 2.
happens: On rank 0, whose peer is late, it is still its own over the number of ranks, 0.5. The hook of
    param_to_hook_all_reduce starts the all-reduce with async_op=True and drops its handle; a large
    gradient is incomplete without any delay.
fails: silently wrong: the gradient
since: 2.11
reach: public API
fuzzer: read in torch's source
upstream: none found
who: Whoever delays the all-reduce of large parameters, as recommendation models do: the optimizer uses
    what is there by then, on CPU. On an accelerator the order of its streams may hide it.
"""

import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    embedding = nn.Parameter(torch.ones(1, 1))  # of a part of the model that DDP does not manage
    delayed, last = nn.Linear(1, 1, bias=False), nn.Linear(1, 1, bias=False)
    nn.init.ones_(last.weight)
    ddp = DistributedDataParallel(
        nn.Sequential(delayed, last),
        delay_all_reduce_named_params=[("0.weight", delayed.weight)],
        param_to_hook_all_reduce=embedding,
    )
    looked_up = embedding * (1 + 2 * rank)
    looked_up.register_hook(lambda gradient: time.sleep(2 * rank))
    ddp(looked_up).sum().backward()
    found = delayed.weight.grad.item()
    assert found == 2, f"the gradient: {found}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
