r"""A view of an argument cannot be returned when the argument is transposed in place after the view was made.

kind: internal assertion
expected: The function is compiled: eager can run it.
happens: "Cannot view a tensor with shape (3, 2) and strides (1, 3) as a tensor with shape (2, 3)": the view
  is made anew of the argument as it is after the transposition.
fails: refused: ValueError: Cannot view a tensor with shape
since: 2.11
reach: internal entry: aot_function; dynamo leaves a transposition of an argument to eager
fuzzer: aot.test_view_programs
upstream: none found; a review of pytorch/pytorch#121007 asks about such programs
who: Whoever builds a compiler on aot_function.
seen: ValueError: Cannot view a tensor with shape[^|]*\|[^|]*\.(t|transpose|swapaxes|squeeze|unsqueeze)_\(
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    view = a.view_as(a)
    a.t_()
    return view


x = torch.arange(6.0).reshape(2, 3).requires_grad_()
aot_function(f, nop, nop)(x * 1)
