r"""The backward of cross_entropy with weights fails in loss_parallel, where a target is ignored.

kind: refused
expected: A gradient of zeros for what is ignored, as outside of loss_parallel and as without weights.
happens: RuntimeError: index -100 is out of bounds for dimension 1 with size 4. The backward takes the weights
  at the targets before it puts anything in the place of those that are ignored; the forward does so after.
fails: refused: RuntimeError: index # is out of bounds
since: 2.11
reach: public API
fuzzer: none; a test of losses on DTensors
upstream: none found; pytorch/pytorch#91383 is of plain tensors and label smoothing, closed
who: Whoever trains with padded targets, classes of unlike weight and a vocabulary that is sharded.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.distributed.tensor.parallel import loss_parallel


def main(rank, path):
    torch.set_num_threads(1)  # a forked pool of threads, used before it is made anew, ends 2.11 and 2.12
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    mesh = init_device_mesh("cpu", (2,))
    scores = distribute_tensor(torch.zeros(2, 4), mesh, [Shard(1)]).requires_grad_()
    target = torch.tensor([1, -100])
    with loss_parallel():
        torch.nn.functional.cross_entropy(scores, target, weight=torch.ones(4)).backward()
    assert scores.grad.full_tensor()[1].tolist() == [0] * 4, "gradient"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
