r"""A full state dict cannot be loaded into an FSDP2 model in which a module stands under two names.

kind: refused
expected: What get_model_state_dict gave is set again, as it is by sharded state dicts, and under FSDP1.
happens: RuntimeError "While copying the parameter named second.weight": only the first of the names is
  distributed, and the whole tensor under the second one is copied into a DTensor.
fails: ^refused: RuntimeError: Error\(s\) in loading state_dict for FSDPModel: While copying the parameter
since: 2.11
reach: public API
fuzzer: fsdp, which draws no such state dict since
upstream: none found
who: Whoever restores a full checkpoint of a model that uses a layer twice, under FSDP2.
"""

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    set_model_state_dict,
)
from torch.distributed.fsdp import fully_shard


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = self.first


dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
mesh = dist.init_device_mesh("cpu", (1,))
model = fully_shard(Model(), mesh=mesh)
full = StateDictOptions(full_state_dict=True)
whole = get_model_state_dict(model, options=full)
expected = whole["second.weight"].clone()
set_model_state_dict(model, whole, options=full)
assert torch.equal(model.second.weight.full_tensor(), expected), "the weights differ"
dist.destroy_process_group()
