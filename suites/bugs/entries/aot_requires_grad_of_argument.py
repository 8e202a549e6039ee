r"""requires_grad_() and detach_() of an argument are lost.

kind: silently wrong
expected: The argument requires a gradient after the call, as in eager; or the function is refused.
happens: The argument is as before.
fails: silently wrong: requires_grad
since: 2.11
reach: internal entry: aot_function; dynamo leaves such calls to eager
fuzzer: aot
upstream: none found; pytorch/pytorch#123713 and pytorch/pytorch#176854 are of results, in torch.compile
who: Whoever builds a compiler on aot_function.
seen: silently wrong: (argument|output|input) #: requires_grad[^|]*\| [^|]*\.(requires_grad_|detach_)\(
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    a.requires_grad_()
    return a * 1


a = torch.ones(2)
aot_function(f, nop)(a)
assert a.requires_grad, "requires_grad of the argument: False"
