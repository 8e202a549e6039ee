r"""The backward of cat of a DTensor with no elements in one dimension fails.

kind: refused
expected: The gradient is empty, too.
happens: For the shape (0,), which cat leaves out for the sake of old programs, autograd makes a plain tensor.
  It is the gradient, or fails where another operator meets it: "got mixed torch.Tensor and DTensor".
fails: refused: RuntimeError: aten.\w+.Tensor:? got mixed torch.Tensor and DTensor
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#173123 is of results that are not used
who: Whoever concatenates lists of losses or tokens, of which one may be empty.
seen: ^dtensor: refused: RuntimeError: aten\.(add|div|mul|sub)\.Tensor got mixed torch\.Tensor and[^|]*\|
    .*torch\.cat\(.*; backward$
seen: ^dtensor: silently wrong: v#\.grad is no DTensor, but a Tensor\s*\| .*torch\.cat\(.*; backward$
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(0), mesh, [Replicate()]).requires_grad_()
    y = distribute_tensor(torch.ones(2), mesh, [Replicate()])
    (torch.cat([x, y]).sum() + x.sum()).backward()
    assert x.grad.shape == (0,), f"the gradient: {x.grad}"
    dist.destroy_process_group()
