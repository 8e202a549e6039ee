r"""embedding() of a table that is sharded by rows fails where a rank has no rows.

kind: refused
expected: The row that is asked for, which is on another rank.
happens: A rank with an empty shard looks the row up in it and raises "index_select(): self indexing axis dim
  should be positive", and the others wait for it in the collective. A table with fewer rows than ranks is
  gathered first, one of five rows for four ranks is not.
fails: refused: RuntimeError: index_select\(\): self indexing axis dim
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever shards a table with few rows, such as one of kinds of tokens.
seen: ^dtensor: refused: RuntimeError: index_select\(\): self indexing axis dim[^|]*\| .*embedding\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh

WORLD = 3


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, WORLD), rank=rank, world_size=WORLD)
    mesh = init_device_mesh("cpu", (WORLD,))
    table = distribute_tensor(torch.ones(4, 3), mesh, [Shard(0)])
    rows = distribute_tensor(torch.tensor([0, 0]), mesh, [Replicate()])
    found = torch.nn.functional.embedding(rows, table).full_tensor()
    assert torch.equal(found, torch.ones(2, 3)), f"rows {found.tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=WORLD, start_method="fork")
