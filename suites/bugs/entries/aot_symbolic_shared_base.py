r"""A write to one of two slices of a tensor fails an assertion under dynamic shapes.

kind: internal assertion
expected: The function is compiled, as it is with static shapes.
happens: "Node as_strided_scatter was invalid, but is output": the offset of the shared memory is a symbol
  that is lost.
fails: internal assertion: AssertionError: Node as_strided_scatter was invalid
since: 2.11
reach: internal entry: aot_function(dynamic=True)
fuzzer: aot.test_view_programs
upstream: none found; pytorch/pytorch#164186 is of the same assertion without shared memory
who: Whoever builds a compiler on aot_function with dynamic shapes.
seen: AssertionError: Node [\w#]+ was invalid, but is output[^|]*\|[^|]*\|
    [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b.*dynamic=True
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b):
    b.mul_(2)
    return a * 3


x = torch.arange(3.0).requires_grad_()
y = x * 1
aot_function(f, nop, nop, dynamic=True)(y[1:], y[1:])
