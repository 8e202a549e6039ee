r"""A vector times a transposed matrix of one row has a dimension too many.

kind: silently wrong
expected: The shape is (1,).
happens: It is (1, 1).
fails: silently wrong: the shape
since: 2.13
reach: public API
fuzzer: dtensor
upstream: none found; it is the bug of dtensor_squeeze_in_place, as matmul ends in squeeze_()
who: Whoever multiplies a vector by a matrix of one row.
seen: ^dtensor: .*shape of v# differs.*\| .* @
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(1, 1), mesh, [Replicate()])
    y = x.flatten(0, 1) @ x.t()
    assert y.shape == (1,), f"the shape: {y.shape}"
    dist.destroy_process_group()
