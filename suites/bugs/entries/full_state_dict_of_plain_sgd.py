"""set_state_dict with full_state_dict=True fails for an optimizer that keeps no tensors, such as plain SGD.

kind: internal assertion
expected: What get_state_dict gave is set again: there is no state to send to other devices.
happens: AssertionError "Expected device to be set": it is the device of the first tensor, and there is
  none.
fails: internal assertion: AssertionError: Expected device to be set
since: 2.11
reach: public API
fuzzer: fsdp, which draws no such state dict since
upstream: none found; pytorch/pytorch#192225 is of the same optimizers' flat state dicts
who: Whoever restores a full checkpoint of a model that is trained by plain SGD.
"""

import torch
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict

model = torch.nn.Linear(2, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
full = StateDictOptions(full_state_dict=True)
of_model, of_optimizer = get_state_dict(model, optimizer, options=full)
set_state_dict(model, optimizer, model_state_dict=of_model, optim_state_dict=of_optimizer, options=full)
