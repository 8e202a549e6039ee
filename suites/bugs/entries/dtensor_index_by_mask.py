r"""Indexing a DTensor by a DTensor of several booleans fails.

kind: refused
expected: The elements where the mask is True; or an error that says that DTensor cannot do it.
happens: "aten.nonzero.default", the name of an operator that the user did not call: the result's shape is
  asked of fake tensors, which cannot know how many booleans are True.
fails: refused: RuntimeError: aten\.nonzero\.default
since: 2.11
reach: public API
fuzzer: dtensor
upstream: pytorch/pytorch#152717
who: Whoever selects tokens or rows by a mask.
seen: ^dtensor: refused: RuntimeError: aten\.nonzero\.default Sharding propagation failed for
    aten\.index\.Tensor[^|]*\| (.*; )?\{0\}\[\{1\}\]
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.arange(3.0), mesh, [Replicate()])
    assert x[x > 0.5].shape == (2,), "the shape"
    dist.destroy_process_group()
