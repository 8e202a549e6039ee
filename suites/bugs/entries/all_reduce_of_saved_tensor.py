"""all_reduce of a tensor that is saved for backward is not noticed, and the gradient is wrong.

kind: silently wrong
expected: backward raises that a variable needed for gradient computation was modified in place, as after
  all_gather_into_tensor or x.mul_(2); or the gradient is right.
happens: all_reduce changes the tensor without a new version, and backward computes with the sums of all
  ranks. broadcast and recv do the same.
fails: silently wrong: the gradient
since: 2.11
reach: public API
fuzzer: probes of collectives
upstream: none found; pytorch/pytorch#121587 is of the documents, which are silent on autograd
who: Whoever reduces an activation or a loss in place, for a log say, before backward: the gradients are
  wrong without a word.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, directory):
    dist.init_process_group("gloo", init_method=f"file://{directory}/file", rank=rank, world_size=2)
    weight = torch.ones(1, requires_grad=True)
    x = weight * 2
    y = x * x
    dist.all_reduce(x.detach())
    try:
        y.backward()
    except RuntimeError as error:
        print("right:", error)
    else:
        assert weight.grad.item() == 8, f"the gradient: {weight.grad.item()}"


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        torch.multiprocessing.start_processes(main, (directory,), nprocs=2, start_method="fork")
