r"""A function is not compiled that leaves an argument without a gradient, though nobody asks for that one.

kind: refused
expected: The gradient of the loss, ones, as in eager: it needs nothing that was written to.
happens: RuntimeError "one of the variables needed for gradient computation has been modified by an inplace
  operation" at the call. The graph is traced with a backward through each argument that is written to, which
  is an error in eager, too, for whoever takes it: here nobody does. With aot_eager and inductor.
fails: ^refused: (RuntimeError|BackendCompilerFailed): .*one of the variables needed for gradient computation
since: 2.11
reach: public API
fuzzer: views
upstream: none found; pytorch/pytorch#158561 is of the same error where the input needs no gradient
who: Whoever compiles code that ends by an update in place of what it was given, a state or a cache.
seen: ^views: refused: RuntimeError: one of the variables needed for gradient computation has been modified
    [^|]*\|[^|]*\|[^|]*\|.*no backward in eager through
"""

import torch


@torch.compile(backend="aot_eager")
def f(a):
    loss = a.sum()
    a.add_(a.sin())
    return loss


leaf = torch.ones(3, requires_grad=True)
f(leaf * 1).backward()
assert leaf.grad.tolist() == [1, 1, 1], f"gradient {leaf.grad.tolist()}"
