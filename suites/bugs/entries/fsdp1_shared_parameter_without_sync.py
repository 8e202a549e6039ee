r"""FSDP1 does not accumulate the gradient of a shared parameter in low precision under no_sync().

kind: refused
expected: The gradient of the parameter, as without no_sync(), and as of a parameter that is not shared.
happens: "attempting to assign a gradient with dtype 'c10::BFloat16'": after a backward without reduction
  gradients stay in the low precision. Each parameter gets its own past that check, a shared one does not.
fails: refused: RuntimeError: attempting to assign a gradient with dtype
since: 2.11
reach: public API
fuzzer: fsdp1
upstream: none found; pytorch/pytorch#111317 has these words, of a compiled module
who: Whoever accumulates gradients of a model with tied weights, with use_orig_params and mixed precision; and
  with keep_low_precision_grads=True each backward of such a model is refused alike.
seen: ^fsdp1: refused: RuntimeError: attempting to assign a gradient with dtype[^|]*\|
    [^|]*(shared|tied)[^|]*\1[^|]*dtype=[^|]*orig[^|]*step\([23], (once|kept)
"""

import tempfile

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel, MixedPrecision

with tempfile.TemporaryDirectory() as directory:
    store = dist.FileStore(f"{directory}/store", 1)
    dist.init_process_group("gloo", store=store, rank=0, world_size=1)
    linear = torch.nn.Linear(2, 2)
    module = FullyShardedDataParallel(
        torch.nn.Sequential(linear, linear),
        device_id=torch.device("cpu"),
        use_orig_params=True,
        mixed_precision=MixedPrecision(torch.bfloat16),
    )
    with module.no_sync():
        module(torch.ones(1, 2)).sum().backward()
    module(torch.ones(1, 2)).sum().backward()
    assert linear.weight.grad is not None, "the gradient"
    dist.destroy_process_group()
