r"""The backward of prod over a dimension fails.

kind: refused
expected: The gradient of the product.
happens: "aten.cat.default got mixed torch.Tensor and DTensor": the formula makes plain tensors.
fails: refused: RuntimeError: aten.cat.default:? got mixed torch.Tensor and DTensor
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#185362 is of cumprod, cummax and cummin
who: Whoever differentiates a product.
seen: ^dtensor: .*got mixed torch\.Tensor and DTensor.*\| .*(prod|cumprod)
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(2, 2), mesh, [Replicate()]).requires_grad_()
    x.prod(0).sum().backward()
    assert x.grad.full_tensor().tolist() == [[1, 1], [1, 1]], f"the gradient: {x.grad}"
    dist.destroy_process_group()
