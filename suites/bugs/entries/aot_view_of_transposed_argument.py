r"""A view of an argument cannot be returned, when the argument was transposed in place before.

kind: refused
expected: The view of the transposed argument, as in eager and where no argument needs a gradient.
happens: "view size is not compatible with input tensor's size and stride": where another argument needs a
  gradient, the view is made anew by what autograd recorded, which begins with the argument as it was.
fails: refused: RuntimeError: view size is not compatible
since: 2.11
reach: internal entry: aot_function; dynamo leaves a transposition of an argument to eager
fuzzer: views
upstream: none found
who: Whoever builds a compiler on aot_function.
seen: ^(views|aot): refused: RuntimeError: view size is not compatible with input tensor[^|]*\|
    [^|]*\b(?P<own>[abc])\.(t_|transpose_)\([^|]*\b(?P<view>t\d+) = (?P=own)\b[^|]*return [^|]*\b(?P=view)\b
seen: ^(views|aot): silently wrong: output #: stride[^|]*\| [^|]*\b(?P<own>[abc])\.(t_|transpose_)\([^|]*
    (?P<view>t\d+) = (?P=own)\.[^|]*return [^|]*\b(?P=view)\b
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b):
    a.t_()
    return a[1:], b * 2


a, b = torch.ones(2, 3), torch.ones(2, requires_grad=True)
view, _ = aot_function(f, nop)(a, b)
assert view.shape == (2, 2), f"shape: {view.shape}"
