"""A hook on an argument that the function returns is lost.

kind: silently wrong
expected: The hook doubles the gradient, as in eager.
happens: An argument that is returned as it is has no backward in the graph, so its hook does not run.
fails: silently wrong: the gradient
since: 2.11
reach: internal entry: aot_function; dynamo registers such hooks itself
fuzzer: aot.test_operator_sweep
upstream: none found
who: Whoever builds a compiler on aot_function.
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    a.register_hook(lambda gradient: gradient * 2)
    return a


x = torch.ones(1, requires_grad=True)
aot_function(f, nop, nop)(x * 1).sum().backward()
assert x.grad.item() == 2, f"the gradient: {x.grad.item()}"
