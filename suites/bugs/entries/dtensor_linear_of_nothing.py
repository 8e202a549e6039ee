r"""linear and matmul of a batch of tensors of which one has no elements divide by zero.

kind: refused
expected: A tensor of shape (2, 0, 3), as for plain tensors.
happens: RuntimeError: integer modulo by zero (in 2.11 list index out of range): the view of two dimensions,
  by which the product is made, cannot be viewed as three again.
fails: refused: RuntimeError: (integer (division or )?modulo by zero|list index out of range)
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever has a batch without elements, as routing to experts makes it.
seen: ^dtensor: [^|]*modulo by zero[^|]*aten\._unsafe_view[^|]*\| .*( @ |linear\(|matmul\()
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(2, 0, 4), mesh, [Replicate()])
    weight = distribute_tensor(torch.ones(3, 4), mesh, [Replicate()])
    assert torch.nn.functional.linear(x, weight).shape == (2, 0, 3), "the shape"
    dist.destroy_process_group()
