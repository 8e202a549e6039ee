r"""mse_loss of a tensor with uneven shards is the mean of the ranks' means.

kind: silently wrong
expected: The loss is 2.0, the mean over all elements, as mean() has it; at the least an error.
happens: It is 2.5: each rank's mean counts as much, however many elements it has; NaN where a rank has
  none.
fails: silently wrong: mse_loss
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#162692 is of mean(), which pytorch/pytorch#163241 mended alone
who: Whoever computes a loss on shards that are not even, as the last batch's are not.
seen: ^dtensor: silently wrong: (value|shard) of v#(\.grad)? differs[^|]*\| [^;]*uneven Shard; .*mse_loss\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    x = torch.tensor([1.0, 1.0, 2.0])
    y = distribute_tensor(x, mesh, [Shard(0)])
    zero = distribute_tensor(torch.zeros(3), mesh, [Shard(0)])
    loss = torch.nn.functional.mse_loss(y, zero).full_tensor()
    expected = torch.nn.functional.mse_loss(x, torch.zeros(3))
    assert torch.allclose(loss, expected), f"mse_loss: {loss} for {expected}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
