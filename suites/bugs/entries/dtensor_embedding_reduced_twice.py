r"""What embedding() gives of a table that is sharded by rows can be reduced once only.

kind: internal assertion
expected: The gradient: 2 for the row that was asked for.
happens: An AssertionError without a word. Which rows a rank has is kept with the result until it is reduced,
  and thrown away then. square() reduces it in the forward, and its backward once more.
fails: internal assertion: AssertionError
since: 2.11
reach: public API
fuzzer: dtensor
upstream: none found; pytorch/pytorch#160697 is of the same assertion in compiled code, pytorch/pytorch#130725
    of two tables
who: Whoever shards a table by rows, and uses what is looked up twice: in a residual, say, or in a norm.
seen: ^dtensor: internal assertion: AssertionError:\s*\| .*embedding\(
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Replicate, Shard, distribute_tensor, init_device_mesh


def main(rank, path):
    torch.set_num_threads(1)  # a forked pool of threads, used before it is made anew, ends 2.11 and 2.12
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    table = distribute_tensor(torch.ones(2, 1), mesh, [Shard(0)]).requires_grad_()
    rows = distribute_tensor(torch.tensor([0]), mesh, [Replicate()])
    loss = torch.nn.functional.embedding(rows, table).square().sum()
    loss.backward()
    assert table.grad.full_tensor().tolist() == [[2], [0]], f"gradient {table.grad.full_tensor().tolist()}"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
