r"""batched_powerSGD_hook fails an assertion in its first compressed step, whatever the model.

kind: internal assertion
expected: The gradients are compressed and averaged, as the hook's documentation has it.
happens: An AssertionError without a text: the low-rank tensors are matrices, and _orthogonalize takes batches
  of matrices, with three dimensions.
fails: internal assertion: AssertionError
since: 2.11
reach: public API
fuzzer: none; a test of DDP's communication hooks
upstream: none found; pytorch/pytorch#75157 has _orthogonalize take batches
who: Whoever registers batched_powerSGD_hook.
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

with tempfile.NamedTemporaryFile() as file:
    dist.init_process_group("gloo", store=dist.FileStore(file.name, 1), rank=0, world_size=1)
    ddp = DistributedDataParallel(torch.nn.Linear(8, 4))
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    ddp.register_comm_hook(state, powerSGD_hook.batched_powerSGD_hook)
    for _ in range(3):
        ddp(torch.ones(3, 8)).sum().backward()
    dist.destroy_process_group()
