r"""A write to an argument is refused when another argument is a view of it that was made by detach().

kind: refused
expected: The function is compiled, or runs in eager with a graph break; fullgraph is not asked for.
happens: "aot_autograd() does not yet handle non-differentiable view input mutations", an AssertionError to
  the user.
fails: internal assertion: BackendCompilerFailed.*does not yet handle non-differentiable view input mutations
since: 2.11
reach: public API
fuzzer: aot.test_view_programs
upstream: none found
who: Whoever compiles a function of a parameter's part and of the same part detached, of which one is
  written to.
seen: does not yet handle non-differentiable view input mutations.*\bdetach\(
"""

import torch


def f(a, b):
    b.mul_(2)
    return a * 1


x = torch.arange(4.0).requires_grad_()
y = x * 1
torch.compile(f, backend="aot_eager")(y[1:], y.detach())
