"""Backward from a written argument that is a wrapper subclass takes its gradient for a plain tensor.

kind: refused
expected: The gradient is computed, as in eager.
happens: 'guessed its metadata incorrectly': the gradient of the written argument is expected to be a plain
  tensor.
fails: refused: RuntimeError: .*guessed its metadata incorrectly
since: 2.11
reach: internal entry: aot_function
fuzzer: aot.test_input_mutation
upstream: none found; pytorch/pytorch#139630 made the guess that is wrong here
who: Whoever builds a compiler on aot_function for tensor subclasses, DTensor for one, that are written to.
"""

import torch
from functorch.compile import aot_function, nop
from torch.testing._internal.two_tensor import TwoTensor


def f(a):
    a.mul_(2)
    return a + 1


x = torch.arange(3.0, requires_grad=True)
a = TwoTensor(x, x * 2) * 1
aot_function(f, nop, nop)(a)
a.sum().backward()
