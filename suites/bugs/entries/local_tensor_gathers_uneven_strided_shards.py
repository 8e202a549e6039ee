r"""In local tensor mode a strided shard of which ranks hold unlike numbers of elements cannot be gathered.

kind: internal assertion
expected: The whole tensor, as on processes.
happens: AssertionError: Non Tensor or int rank results must be equal for all ranks; in 2.12 an
  AttributeError. A strided shard lists the places of a rank's elements, and
  the mode refuses a list that differs by rank.
fails: internal assertion: (AssertionError: Non Tensor or int rank results|AttributeError: 'LocalIntNode')
since: 2.12
reach: internal entry: LocalTensorMode of torch.distributed._local_tensor; processes are right
fuzzer: dtensor
upstream: none found
who: Whoever tests DTensor in one process, with flatten() over dimensions that are sharded unevenly.
seen: ^dtensor: internal assertion: AssertionError: Non Tensor or int rank results must be equal[^|]*\|
    .*(flatten|reshape|view)\(
seen: ^dtensor: internal assertion: AttributeError: 'LocalIntNode' object has no attribute 'int_'[^|]*\|
    .*(flatten|reshape|view)\(
"""

import torch
import torch.distributed as dist
from torch.distributed._local_tensor import LocalTensorMode
from torch.distributed.tensor import Shard, distribute_tensor, init_device_mesh
from torch.testing._internal.distributed.fake_pg import FakeStore


def main():
    mesh = init_device_mesh("cpu", (2, 2))
    whole = torch.arange(12).reshape(2, 2, 3)
    try:
        flat = distribute_tensor(whole, mesh, [Shard(2), Shard(1)]).flatten()
    except RuntimeError:  # 2.11 says that it does not support this
        return
    assert torch.equal(flat.full_tensor().reconcile(), torch.arange(12)), "elements differ"


if __name__ == "__main__":
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=4)
    with LocalTensorMode(4):
        main()
    dist.destroy_process_group()
