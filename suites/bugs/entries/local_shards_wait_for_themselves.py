r"""wait_tensor of a LocalShardsWrapper calls itself until Python's stack is used up.

kind: internal assertion
expected: The shards, each waited for, as a plain tensor comes back.
happens: RecursionError: what the class has for wait_tensor calls wait_tensor of the same wrapper, not of its
  shards.
fails: internal assertion: RecursionError: maximum recursion depth exceeded
since: 2.11
reach: internal entry: LocalShardsWrapper, which TorchRec puts into DTensors
fuzzer: none; a test of what stands within DTensors
upstream: none found; pytorch/pytorch#129150 brought the class
who: Whoever waits for a collective whose result was wrapped, or for all tensors of a state dict.
"""

import torch
from torch.distributed._functional_collectives import wait_tensor
from torch.distributed.tensor._shards_wrapper import LocalShardsWrapper

shards = LocalShardsWrapper([torch.ones(2, 2)], [(0, 0)])
found = wait_tensor(shards)
assert found.shape == (2, 2), f"shape {found.shape}"
