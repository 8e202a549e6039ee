"""DDP cannot delay the all-reduce of all parameters that have gradients, for which it has a way of its own.

kind: internal assertion
expected: The forward runs; DDP logs "Delay the AllReduce of all parameters." when it is made.
happens: AttributeError: 'DistributedDataParallel' object has no attribute '_lazy_init_ran'. What is
    delayed is left out of the reducer; where nothing is left for it the constructor returns before it
    sets what the forward reads. Without a frozen parameter it ends earlier: "parameters locate in set()".
fails: internal assertion: AttributeError: 'DistributedDataParallel' object has no attribute '_lazy_init_ran'
since: 2.11
reach: public API
fuzzer: read in torch's source
upstream: none found; pytorch/pytorch#104753 mended what such a forward returns
who: Whoever delays the all-reduce of all that is trained, say of adapters on a frozen model.
"""

import tempfile

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

with tempfile.NamedTemporaryFile() as file:
    dist.init_process_group("gloo", store=dist.FileStore(file.name, 1), rank=0, world_size=1)
    frozen, trained = nn.Linear(2, 2).requires_grad_(False), nn.Linear(2, 2, bias=False)
    ddp = DistributedDataParallel(
        nn.Sequential(frozen, trained),
        delay_all_reduce_named_params=[("1.weight", trained.weight)],
        param_to_hook_all_reduce=trained.weight,
    )
    ddp(torch.ones(1, 2)).sum().backward()
    dist.destroy_process_group()
