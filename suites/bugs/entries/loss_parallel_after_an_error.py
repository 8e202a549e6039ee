r"""loss_parallel stays on when its block is left by an error.

kind: silently wrong
expected: A context manager undoes what it did however its block ends.
happens: After an exception in the block, losses outside of it still run as in it: log_softmax of a
  tensor that is sharded over its classes gives an output sharded so, in place of a replicated one.
fails: silently wrong: loss_parallel
since: 2.11
reach: public API
fuzzer: none; a test of losses on DTensors
upstream: none found; pytorch/pytorch#190746 is of wrong gradients within the block
who: Whoever catches an error of a training step, as for a batch that does not fit into memory, and goes
  on.
"""

import contextlib
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.parallel import loss_parallel


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    scores = distribute_tensor(torch.arange(8.0).reshape(2, 4), mesh, [Shard(1)])
    before = torch.nn.functional.log_softmax(scores, 1).placements
    with contextlib.suppress(ValueError), loss_parallel():
        raise ValueError
    after = torch.nn.functional.log_softmax(scores, 1).placements
    assert after == before, f"loss_parallel: {after} for {before}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
