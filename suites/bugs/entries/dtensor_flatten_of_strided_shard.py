r"""reshape of rows of which each is a strided shard fails, with the dimension's number for a reason.

kind: refused
expected: The strided shard of the whole that it is, as for the same rows flattened at once, or the words
  for what is not supported.
happens: KeyError in the sharding rule: "1. Sharding propagation failed for aten.view.default". The rule
  makes a place for a later dimension of those that are flattened only where it is a plain shard.
fails: refused: RuntimeError: # Sharding propagation failed for aten\.view\.default
since: 2.12
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#166483 has made views of strided shards
who: Whoever flattens dimensions of which an inner one is sharded, stacks or expands that, and flattens again.
seen: ^dtensor: refused: RuntimeError: # Sharding propagation failed for aten\.\w*view\.default\([^|]*_S\(#
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 1), rank=0, world_size=1)
    mesh = init_device_mesh("cpu", (1,))
    x = torch.arange(8).reshape(2, 4)
    try:
        flat = distribute_tensor(x, mesh, [Shard(1)]).flatten()
    except RuntimeError:  # 2.11 says that it does not support this
        return
    found = torch.stack([flat, flat]).reshape(-1).full_tensor()
    assert found.tolist() == [*range(8), *range(8)], "the rows, one after the other"
    dist.destroy_process_group()


with tempfile.TemporaryDirectory() as directory:
    main(f"{directory}/store")
