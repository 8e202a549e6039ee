r"""max, amax and amin fail where a rank has no elements.

kind: refused
expected: The maximum over all elements, which are there: on other ranks.
happens: A rank with an empty shard raises, and the others wait for it in the collective.
fails: refused: IndexError: amax\(\): Expected reduction dim
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found
who: Whoever reduces a tensor with fewer rows than ranks.
seen: ^dtensor: .*(amax|amin|max|min|aminmax)\(\): Expected reduction dim
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = distribute_tensor(torch.ones(1, 2), mesh, [Shard(0)])
    assert x.amax(0).full_tensor().tolist() == [1, 1], "amax"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
