r"""What is computed of an argument gets no gradient, before a change of its shape in place that changes none.

kind: silently wrong
expected: The gradient of sum(a) * a, 8 for each of four ones, as in eager and without the transpositions.
happens: 4: what comes through the sum, which was taken between the transpositions, is left out. The two leave
  the argument as it was. An output that is computed of the argument before or between them, and of nothing
  else, does not even require a gradient. So it is before a squeeze_() of an argument that has
  nothing to squeeze.
fails: ^silently wrong: the gradient
since: 2.11
reach: internal entry: aot_function; dynamo leaves a transposition of an argument to eager
fuzzer: views
upstream: none found
who: Whoever builds a compiler on aot_function.
seen: ^(views|aot): silently wrong: (gradient of leaf|output #: requires_grad False)[^|]*\|
    (?=[^|]*\b(?P<own>[abc])\.(t_|transpose_)\([^|]*\b(?P=own)\.(t_|transpose_)\()[^|]*[=(][^;|]*\b(?P=own)\b[^|]*;
    (?P=own)\.(t_|transpose_)\(
seen: ^(views|aot): silently wrong: (gradient of leaf|output #: requires_grad False)[^|]*\|
    [^|]*[=(][^;|]*\b(?P<own>[abc])\b[^|]*; (?P=own)\.squeeze_\(
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    a.t_()
    total = a.sum()
    a.t_()
    return total * a


x = torch.ones(2, 2, requires_grad=True)
y = x * 1
aot_function(f, nop, nop)(y).sum().backward()
assert x.grad.unique().tolist() == [8], f"the gradient: {x.grad.unique().tolist()}"
