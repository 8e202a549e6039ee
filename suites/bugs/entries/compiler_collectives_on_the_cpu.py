r"""enable_compiler_collectives divides by the number of accelerators, and so by zero on the CPU.

kind: refused
expected: Ranks on the CPU tell each other what they compile, as those on accelerators do; the group that they
  do it on is of gloo, for the CPU.
happens: The compiler takes the group's rank modulo torch.accelerator.device_count(). With an accelerator
  beside it the CPU's interface then has no context of a device.
fails: refused: InternalTorchDynamoError: (ZeroDivisionError|NotImplementedError)
since: 2.11
reach: public API
fuzzer: none; a test of compiler collectives on the CPU
upstream: none found; pytorch/pytorch#150405 brought it
who: Whoever sets TORCH_COMPILER_COLLECTIVES=1 and tries the program on a machine without a GPU.
"""

import tempfile

import torch
import torch.distributed as dist

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("cpu:gloo", store=store, rank=0, world_size=1)
    torch._dynamo.config.enable_compiler_collectives = True

    @torch.compile(backend="eager")
    def twice(x):
        return 2 * x

    try:
        assert twice(torch.ones(1)).item() == 2
    finally:
        dist.destroy_process_group()
