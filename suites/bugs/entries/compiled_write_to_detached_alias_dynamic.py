r"""A write through detach() of an argument fails an assertion in C++ under dynamic shapes.

kind: internal assertion
expected: The function is compiled or runs in eager: eager runs it.
happens: 'Expected !size_bytes_is_heap_allocated_ to be true': a fake storage of symbolic size is asked for
  its size.
fails: BackendCompilerFailed.*size_bytes_is_heap_allocated
since: 2.11
reach: public API
fuzzer: compile
upstream: none found
who: Whoever passes an activation and its detached copy to a function that is compiled for dynamic shapes.
seen: size_bytes_is_heap_allocated.*\bdetach\(.*dynamic=True
"""

import torch


def f(a, b):
    b.detach().mul_(3)
    return a


y = torch.arange(3.0).requires_grad_() * 1
torch.compile(f, backend="aot_eager", dynamic=True)(y, y.detach())
