r"""split of a dimension of size 0 fails a check.

kind: refused
expected: One chunk of size 0, as of a plain tensor.
happens: "output_specs has 0 outputs which does not equal the number of op outputs 1": the strategy counts
  no chunk. Before 2.13 it is "list assignment index out of range".
fails: refused: RuntimeError: (For the op aten::split.Tensor|list assignment index out of range)
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever splits a batch, or experts' tokens, of which there are none this time.
seen: ^dtensor: refused: RuntimeError: For the op aten::split.*output_specs. has # outputs which does not
seen: ^dtensor: refused: RuntimeError: list assignment index out of range[^|]*\| .*\.split\(
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Replicate, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(1, 0), mesh, [Replicate()])
    (chunk,) = x.split(2, -1)
    assert chunk.shape == (1, 0), f"the shape: {chunk.shape}"
    dist.destroy_process_group()
