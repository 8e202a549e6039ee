"""With static_graph the first backward under no_sync() fails an internal assertion.

kind: internal assertion
expected: Gradients are accumulated, and reduced by the next backward, as without static_graph.
happens: "expect_autograd_hooks_ INTERNAL ASSERT FAILED ... please report a bug" from the next backward.
fails: internal assertion: RuntimeError: .*expect_autograd_hooks_ INTERNAL ASSERT FAILED
since: 2.11
reach: public API
fuzzer: ddp
upstream: pytorch/pytorch#143580; pytorch/pytorch#166388 and pytorch/pytorch#187732 are to mend it
who: Whoever accumulates gradients with DistributedDataParallel(static_graph=True).
seen: ^ddp: .*expect_autograd_hooks_ INTERNAL ASSERT FAILED
"""

import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    ddp = DistributedDataParallel(torch.nn.Linear(2, 2), static_graph=True)
    with ddp.no_sync():
        ddp(torch.ones(1, 2)).sum().backward()
    ddp(torch.ones(1, 2)).sum().backward()
    assert ddp.module.weight.grad.eq(2).all(), "the gradient"
    dist.destroy_process_group()
