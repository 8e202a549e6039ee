r"""The backward of norm of a Partial tensor fails.

kind: refused
expected: The gradient: norm() itself has gathered the tensor.
happens: "aten.masked_fill_: in-place operations that require placement changes are not supported", which
  the user did not call.
fails: refused: RuntimeError: aten.masked_fill_.Scalar: in-place operations
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#152249 is of the same backward without a strategy for masked_fill_
who: Whoever penalises the norm of a result that is not reduced yet.
seen: ^dtensor: .*masked_fill_\.Scalar: in-place operations.*\| .*norm
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = DTensor.from_local(torch.tensor(3.0), mesh, [Partial()]).requires_grad_()
    x.norm().backward()
    assert x.grad.full_tensor() == 1, "the gradient"
    dist.destroy_process_group()
