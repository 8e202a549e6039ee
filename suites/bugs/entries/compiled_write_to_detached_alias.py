r"""A write through detach() of an argument fails an assertion, when the other argument needs a gradient.

kind: internal assertion
expected: The function is compiled or runs in eager: eager runs it.
happens: 'any_leaf=True != all_leaf=False': of arguments that share memory one is a leaf, as y.detach()
  always is.
fails: internal assertion: BackendCompilerFailed.*any_leaf=True != all_leaf=False
since: 2.11
reach: public API
fuzzer: compile
upstream: none found
who: Whoever passes an activation and its detached copy to a compiled function that writes to one of them.
seen: (any_leaf=True != all_leaf=False|any_leaf=# != all_leaf).*\bdetach\(
"""

import torch


def f(a, b):
    b.detach().mul_(3)
    return a


y = torch.arange(3.0).requires_grad_() * 1
torch.compile(f, backend="aot_eager", dynamic=False)(y, y.detach())
