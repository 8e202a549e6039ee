r"""A write to an argument under inference_mode does not compile.

kind: refused
expected: The function is compiled: eager runs it, and the argument is no inference tensor.
happens: 'Cannot set version_counter for inference tensor': while tracing, the copies of the argument are
  made under inference_mode.
fails: refused: BackendCompilerFailed.*(Cannot set version_counter for inference tensor|weakref at)
since: 2.11
reach: public API
fuzzer: compile
upstream: pytorch/pytorch#180823
who: Whoever updates a buffer or a cache under inference_mode within a compiled function.
seen: Cannot set version_counter for inference tensor[^|]*\| [^|]*inference_mode
"""

import torch


def f(a):
    with torch.inference_mode():
        a[0] = 7
    return a


torch.compile(f, backend="aot_eager")(torch.ones(3))
