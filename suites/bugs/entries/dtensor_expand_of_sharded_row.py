r"""expand of a dimension that is sharded fails, with its number for a reason.

kind: refused
expected: The row is gathered and then expanded, as pytorch/pytorch#163320 has it.
happens: KeyError in the sharding rule: "0. Sharding propagation failed for aten.expand.default".
fails: refused: RuntimeError: # Sharding propagation failed for aten.expand.default
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#163320 is of the same case
who: Whoever broadcasts a row that is sharded, as mse_loss does, too, and a mesh of one rank.
seen: ^dtensor: refused: RuntimeError: # Sharding propagation failed for aten\.expand\.default\([^|]*S\(#\)
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = distribute_tensor(torch.ones(1), mesh, [Shard(0)])
    assert x.expand(2).full_tensor().tolist() == [1, 1], "the row"
    dist.destroy_process_group()
