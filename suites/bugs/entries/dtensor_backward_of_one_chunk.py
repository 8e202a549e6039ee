r"""The backward fails where only some of the tensors of chunk, split or unbind are used.

kind: refused
expected: The gradient is zero for the chunk that is not used.
happens: Autograd makes a plain tensor of zeros for it, and "aten.cat got mixed torch.Tensor and DTensor".
fails: refused: RuntimeError: aten.cat.default:? got mixed torch.Tensor and DTensor
since: 2.11
reach: public API
fuzzer: dtensor
upstream: pytorch/pytorch#173123, which is of any operator with several results
who: Whoever splits a fused projection and needs one part of it.
seen: ^dtensor: .*aten\.(cat|stack)\.default got mixed torch\.Tensor and DTensor.*\| .*(chunk|split|unbind)
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(4), mesh, [Replicate()]).requires_grad_()
    x.chunk(2)[1].sum().backward()
    assert x.grad.full_tensor().tolist() == [0, 0, 1, 1], f"the gradient: {x.grad}"
    dist.destroy_process_group()
