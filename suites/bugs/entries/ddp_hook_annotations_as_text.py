"""register_comm_hook refuses a correctly annotated hook in a module with postponed annotations.

kind: refused
expected: The hook is registered: its annotations are dist.GradBucket and torch.futures.Future[torch.Tensor].
happens: ValueError "bucket annotation should be dist.GradBucket": the check compares the text with the class.
fails: refused: ValueError: Communication hook: bucket annotation
since: 2.11
reach: public API
fuzzer: ddp
upstream: none found
who: Whoever writes "from __future__ import annotations" in the module of a hook.
seen: ^ddp: .*Communication hook: bucket annotation
"""

from __future__ import annotations

import tempfile

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel


def hook(state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    done = torch.futures.Future()
    done.set_result(bucket.buffer())
    return done


with tempfile.NamedTemporaryFile() as file:
    dist.init_process_group("gloo", store=dist.FileStore(file.name, 1), rank=0, world_size=1)
    ddp = DistributedDataParallel(torch.nn.Linear(2, 2))
    ddp.register_comm_hook(None, hook)
    dist.destroy_process_group()
