r"""fully_shard refuses a module on its own mesh, where DTensors of an equal mesh were used before.

kind: refused
expected: The module is sharded, as the first one is: its parameters were distributed over the mesh that is
  given.
happens: ValueError: "but got different mesh objects". DTensor keeps the layouts of results by equal
  arguments, so the parameters have the mesh of the earlier DTensors, which is equal and not the same; the
  check is by "is".
fails: refused: ValueError: Expected param's DTensor mesh to be the same mesh passed
since: 2.12
reach: public API
fuzzer: none; a test of meshes of FSDP2
upstream: none found; pytorch/pytorch#176334 brought dp_mesh_dims
who: Whoever makes the mesh in a function that is called for each model, or tests a model twice in a process.
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed import fsdp
from torch.distributed.tensor import distribute_module, init_device_mesh


def shard():
    mesh = init_device_mesh("cpu", (1,), mesh_dim_names=("data",))
    module = distribute_module(torch.nn.Linear(2, 2), mesh)
    fsdp.fully_shard(module, mesh=mesh, dp_mesh_dims=fsdp.DataParallelMeshDims(shard="data"))


with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    if hasattr(fsdp, "DataParallelMeshDims"):  # 2.12 brought it
        shard()
        shard()
    dist.destroy_process_group()
