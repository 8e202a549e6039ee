r"""out= of an operator keeps its own shape in place of the result's.

kind: silently wrong
expected: out has the shape (1, 1) of the result, as with plain tensors, which warn; or an error.
happens: It has its old shape (1,), and the next operator fails.
fails: silently wrong: the shape
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever reuses a buffer.
seen: ^dtensor: .*shape of v# differs.*\| .*out=
seen: ^dtensor: .*dimensionality of sizes.*\| .*out=
seen: ^dtensor: refused: [^|]*doesn't match the broadcast shape[^|]*\| .*out=.*;
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
    out = distribute_tensor(torch.ones(1), mesh, [Replicate()])
    torch.add(x, 1, out=out)
    assert out.shape == (1, 1), f"the shape: {out.shape}"
    dist.destroy_process_group()
