r"""squeeze_ leaves the shape of the DTensor as it is, so that a vector times a matrix is a matrix.

kind: silently wrong
expected: The shape is (2,), as of a plain tensor.
happens: squeeze_() of (1, 2) leaves the shape (1, 2), and later views fail in shape checks. torch.matmul
  ends in squeeze_ where its first argument is a vector: (3,) @ (3, 2) has the shape (1, 2).
fails: silently wrong: the shapes
since: 2.13
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#174136 is of the reverse, a local tensor of the old shape
who: Whoever multiplies a vector by a matrix, or squeezes in place.
seen: ^dtensor: silently wrong: shape of v#(\.full_tensor\(\))? differs[^|]*\| .*squeeze_\(
seen: ^dtensor: refused: (IndexError: tuple index out of range|RuntimeError: shape)[^|]*\| .*squeeze_\(.*;
seen: ^dtensor: silently wrong: shape of v# differs: torch\.Size\(\[#, #\]\), but torch\.Size\(\[#\]\) in
    plain \| .*( @ |linear\(|matmul\()
seen: ^dtensor: internal assertion: IndexError: Dimension out of range[^|]*\| .*( @ |linear\(|matmul\()
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    row = distribute_tensor(torch.ones(1, 2), mesh, [Replicate()])
    try:
        row.squeeze_()
    except NotImplementedError:  # 2.11 says that it does not support this
        row = row.squeeze()
    vector = distribute_tensor(torch.ones(3), mesh, [Replicate()])
    product = vector @ distribute_tensor(torch.ones(3, 2), mesh, [Replicate()])
    assert row.shape == product.shape == (2,), f"the shapes: {row.shape}, {product.shape}"
    dist.destroy_process_group()
