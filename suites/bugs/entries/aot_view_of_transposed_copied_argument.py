r"""A view of an argument has its elements in another order, when that was copied and transposed in place.

kind: silently wrong
expected: The transposed view of the transposed argument, [[0, 1], [2, 3]], as in eager and without the copy.
happens: [[0, 2], [1, 3]]: the view is made anew of the argument as it was before its transposition, where
  another argument gets a gradient by the copy.
fails: silently wrong: the view
since: 2.11
reach: internal entry: aot_function; dynamo leaves a transposition of an argument to eager
fuzzer: views
upstream: none found; pytorch/pytorch#90507 is of what autograd is told of in-place views, for results
who: Whoever builds a compiler on aot_function.
seen: ^(views|aot): silently wrong: output #: stride[^|]*\| (?:[^|]*; )?[abc]\.copy_\((?P<own>[abc])\);
    [^|]*\b(?P=own)\.(t_|transpose_)\([^|]*\b(?P<view>t\d+) = (?P=own)\b[^|]*return [^|]*\b(?P=view)\b
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b):
    a.copy_(b)
    b.t_()
    return b.t()


b = torch.arange(4.0).reshape(2, 2).requires_grad_() * 1
view = aot_function(f, nop, nop)(torch.zeros(2, 2), b)
assert view.tolist() == [[0, 1], [2, 3]], f"the view: {view.tolist()}"
