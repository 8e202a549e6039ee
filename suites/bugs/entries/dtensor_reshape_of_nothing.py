r"""reshape of a tensor without elements never ends.

kind: hangs
expected: A tensor of shape (0, 2), or an error.
happens: torch/distributed/tensor/_ops/_view_ops.py loops in view_groups, in Python, without end; in 2.11
  view_groups raises an IndexError there, "tuple index out of range".
fails: hangs: .*|refused: RuntimeError: tuple index out of range
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever has a batch without elements, as routing to experts makes it; products reshape as well, of
  tensors of three dimensions and two.
seen: ^dtensor: hangs.*\| .*(reshape|view|flatten|@|linear)
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(4, 0), mesh, [Replicate()])
    assert x.reshape(-1, 2).shape == (0, 2), "the shape"
    dist.destroy_process_group()
