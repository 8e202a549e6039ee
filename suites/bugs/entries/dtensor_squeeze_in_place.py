r"""squeeze_ leaves the shape of the DTensor as it is.

kind: silently wrong
expected: The shape is (2,), as of a plain tensor.
happens: squeeze_() of (1, 2) leaves the shape (1, 2), and later views fail in shape checks.
fails: silently wrong: the shape
since: 2.13
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#174136 is of the reverse, a local tensor of the old shape
who: Whoever squeezes in place.
seen: ^dtensor: .*\| .*squeeze_\(
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(1, 2), mesh, [Replicate()])
    x.squeeze_()
    assert x.shape == (2,), f"the shape: {x.shape}"
    dist.destroy_process_group()
