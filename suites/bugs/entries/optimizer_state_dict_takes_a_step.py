"""get_optimizer_state_dict before the first step counts as one: the next updates of AdamW are others.

kind: silently wrong
expected: Reading a state dict changes nothing: the first update is the one that an optimizer without it
  makes.
happens: The state is made by a step with zero gradients and rate 0, and "step" stays at 1, so that the
  first update is corrected as a second one.
fails: silently wrong: weight:
since: 2.11
reach: public API
fuzzer: fsdp, which draws no such state dict since
upstream: pytorch/pytorch#164929
who: Whoever saves a checkpoint before the first step, or looks whether one is there by its keys.
"""

import torch
from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict


def trained(reads):
    torch.manual_seed(0)
    model = torch.nn.Linear(2, 2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    if reads:
        get_optimizer_state_dict(model, optimizer)
    model(torch.ones(1, 2)).sum().backward()
    optimizer.step()
    return model.weight


found, right = trained(reads=True), trained(reads=False)
assert torch.equal(found, right), f"weight: {found} for {right}"
