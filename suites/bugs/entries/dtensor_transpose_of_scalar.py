r"""transpose(0, -1) of a 0-dimensional tensor fails a check.

kind: refused
expected: The tensor itself, as of a plain tensor.
happens: RuntimeError: Expected dim1 < ndim, got 0 >= 0.
fails: refused: RuntimeError: Expected dim# < ndim
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever transposes in general code.
seen: ^dtensor: [^|]*Expected dim# < ndim[^|]*\| .*(transpose|movedim)\(
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.tensor(2.0), mesh, [Replicate()])
    assert x.transpose(0, -1).full_tensor() == 2, "transpose"
    dist.destroy_process_group()
