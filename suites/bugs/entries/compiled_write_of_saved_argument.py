r"""The backward of a compiled function fails that writes to an argument whose old values it needs.

kind: refused
expected: The gradient, cos(1): in eager, sin_ keeps a copy of what it overwrites.
happens: RuntimeError "one of the variables needed for gradient computation has been modified by an inplace
  operation". Backward needs the argument's values, the compiled function saves the argument itself, and then
  writes to it. With aot_eager and inductor.
fails: refused: RuntimeError: one of the variables needed for gradient computation has been modified
since: 2.11
reach: public API
fuzzer: compile
upstream: pytorch/pytorch#185497 is of the same through interpolate, with inductor
who: Whoever compiles a function that ends an activation in place on what it is given: sin_, cos_, pow_.
seen: ^(compile|inductor|aot): refused: .*one of the variables needed.*\| [ab]\.(sin|cos)_\(\); return
"""

import torch


@torch.compile(backend="aot_eager")
def f(a):
    a.sin_()
    return a


leaf = torch.ones(3, requires_grad=True)
f(leaf * 1).sum().backward()
assert torch.allclose(leaf.grad, torch.ones(3).cos()), f"gradient {leaf.grad}"
