r"""The backward of a slice fails after it was copied into another slice of its tensor, under dynamic shapes.

kind: refused
expected: A gradient of ones for the row that was returned, as in eager and with static shapes.
happens: "one of the variables needed for gradient computation has been modified by an inplace operation",
  where the copy repeats the row. The tensor of both is an input of the graph that is saved and then written.
fails: refused: RuntimeError: one of the variables needed for gradient computation
since: 2.11
reach: internal entry: aot_function(dynamic=True); torch.compile is right
fuzzer: views
upstream: none found
who: Whoever builds a compiler on aot_function with dynamic shapes.
seen: ^views: refused: RuntimeError: one of the variables needed[^|]*\| [^|]*\.copy_\((?P<own>[abc])\)[^|]*
    return (?P=own)\b[^|]*\| [^|]*(?P<base>y\d)\b[^|;]*, (?P=base)\b[^|]*\| dynamic=True
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b):
    a.copy_(b)
    return b


x = torch.ones(2, 2, requires_grad=True)
y = x * 1
aot_function(f, nop, nop, dynamic=True)(y[1:], y[0]).sum().backward()
assert x.grad.tolist() == [[1, 1], [0, 0]], f"gradient: {x.grad.tolist()}"
