"""Backward fails, when the function changes the sizes of an argument in place and computes with a view of it.

kind: refused
expected: The gradient is cos(0), cos(1), cos(2), as in eager.
happens: 'one of the variables needed for gradient computation has been modified by an inplace operation':
  what is done to the argument after the graph counts as a write to what the graph saved.
fails: refused: RuntimeError: one of the variables needed for gradient computation
since: 2.11
reach: internal entry: aot_function; dynamo leaves a change of an argument's sizes to eager
fuzzer: aot.test_view_programs
upstream: none found; pytorch/pytorch#185876 is of writes that are done after the graph
who: Whoever builds a compiler on aot_function.
seen: one of the variables needed for gradient computation.*(squeeze_|t_|transpose_|swapaxes_)[(]
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    a.unsqueeze_(0)
    return a.unsqueeze(0).sin()


x = torch.arange(3.0).requires_grad_()
aot_function(f, nop, nop)(x * 1).sum().backward()
