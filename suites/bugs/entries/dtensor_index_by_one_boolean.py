r"""Indexing a DTensor by a DTensor that is one boolean fails, where that is False.

kind: refused
expected: A tensor of shape (0, 3), as for plain tensors, where the boolean is False.
happens: RuntimeError: aten.index.Tensor got mixed torch.Tensor and DTensor. The index is read, and another
  made of it, which is a plain tensor.
fails: refused: RuntimeError: aten\.index\.Tensor:? got mixed
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#152717 is of masks of several booleans
who: Whoever keeps or drops a whole tensor by a condition that all() or any() gives.
seen: ^dtensor: refused: RuntimeError: aten\.index\.Tensor:? got mixed[^|]*\|
    .*\.(all|any)\([^;]*; (.*; )?\{0\}\[\{1\}\]
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(3), mesh, [Replicate()])
    assert x[(x > 1).all()].shape == (0, 3), "the shape"
    dist.destroy_process_group()
