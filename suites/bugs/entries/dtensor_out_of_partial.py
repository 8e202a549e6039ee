r"""An operator with out= on a Partial tensor of max fails in an empty min().

kind: refused
expected: The result, or an error that says what to do.
happens: "min() arg is an empty sequence": no strategy is left, and the one of least cost is taken.
fails: refused: RuntimeError: min\(\) (arg is an empty sequence|iterable argument is empty)
since: 2.12
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#173572 gave operators in place a clear error for it
who: Whoever writes into the result of a reduction.
seen: ^dtensor: .*min\(\) (arg is an empty sequence|iterable argument is empty)
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Partial, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = DTensor.from_local(torch.ones(1), mesh, [Partial("max")])
    torch.add(x, 1, out=x)
    assert x.full_tensor() == 2, "the sum"
    dist.destroy_process_group()
