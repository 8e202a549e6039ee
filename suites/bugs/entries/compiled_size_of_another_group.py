r"""A compiled function tells the size of the first process group it was given, whatever it is given.

kind: silently wrong
expected: get_world_size(group) and get_rank(group) of the group that this call passes, as without
  compilation; a second group has the function compiled anew, which is what happens where it calls a
  collective on it.
happens: The numbers of the first group are constants in the graph, and no guard asks which group is
  passed: a call with a group of one rank is told that it has two.
fails: silently wrong: a group of
since: 2.12
reach: public API
fuzzer: none; a test of compiled collectives on pairs of four ranks
upstream: none found; pytorch/pytorch#189330 is of a group's name, which is a constant in the graph, too
who: Whoever compiles a function that divides by the size of a group, or slices by the rank in it, and
  calls it for more than one: layers that share code between tensor-parallel and data-parallel groups.
"""

import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing


def main(rank, path):
    dist.init_process_group("gloo", store=dist.FileStore(path, 2), rank=rank, world_size=2)
    single, _ = dist.new_subgroups(1)

    def plus_size(x, group):
        return x + dist.get_world_size(group)

    compiled = torch.compile(plus_size, backend="eager", fullgraph=True)
    assert compiled(torch.zeros(1), dist.group.WORLD).item() == 2
    size = compiled(torch.zeros(1), single).item()
    assert size == 1, f"a group of 1 has {size:.0f} ranks"
    dist.destroy_process_group()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as directory:
        path = f"{directory}/store"
        torch.multiprocessing.start_processes(main, (path,), nprocs=2, start_method="fork")
