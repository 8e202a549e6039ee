r"""enable_compiler_collectives ends in a TypeError of dynamo's own on a group for two device types.

kind: refused
expected: Ranks tell each other what they compile; at the least an error that says which group is wanted.
  "gloo" by itself makes a group for the CPU and for CUDA, as does no backend at all where there is a GPU.
happens: The compiler asserts that the group is for one device type, and the assertion's text joins the types
  as if they were strings.
fails: refused: InternalTorchDynamoError: TypeError: sequence item #: expected str instance
since: 2.11
reach: public API
fuzzer: none; the suites on gloo with a GPU
upstream: none found; pytorch/pytorch#150405 brought the assertion
who: Whoever sets TORCH_COMPILER_COLLECTIVES=1 and does not name one device type for the group.
"""

import tempfile

import torch
import torch.distributed as dist

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    torch._dynamo.config.enable_compiler_collectives = True

    @torch.compile(backend="eager")
    def twice(x):
        return 2 * x

    try:
        assert twice(torch.ones(1)).item() == 2
    finally:
        dist.destroy_process_group()
