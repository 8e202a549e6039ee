r"""The backward of repeat of a tensor without elements divides by zero.

kind: refused
expected: A gradient of shape (0, 0).
happens: RuntimeError: integer modulo by zero.
fails: refused: RuntimeError: (integer (division or )?modulo by zero|tuple index out of range)
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever has a batch without elements.
seen: ^dtensor: [^|]*integer (division or )?modulo by zero[^|]*\| .*repeat\(
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(0, 0), mesh, [Replicate()]).requires_grad_()
    x.repeat(2, 1).sum().backward()
    assert x.grad.shape == (0, 0), "the shape"
    dist.destroy_process_group()
