r"""A write to an empty part of a tensor breaks the backward of what was compiled with the tensor itself.

kind: refused
expected: The gradient, cos(1), as in eager: a write to no elements changes nothing that the backward needs.
happens: The backward ends by RuntimeError "one of the variables needed for gradient computation has been
  modified by an inplace operation". Arguments that overlap nowhere are taken for tensors of their own, so
  that the write is made after the forward, which counts as one to the tensor that was saved.
fails: ^refused: RuntimeError: one of the variables needed for gradient computation has been modified
since: 2.11
reach: public API
fuzzer: views
upstream: none found
who: Whoever compiles code that fills the rest of a padded batch, which may be empty, beside the batch.
seen: ^(views|aot|compile|inductor|compiled-autograd): refused: RuntimeError: one of the variables needed for
    gradient computation has been modified[^|]*\| [^|]*\b[abc]\.\w+_\([^|]*\|
    (?=[^|]*\b(?P<base>y\d)\[1:\])([^|]*\b(?P=base)(?!\[)|[^|]*\b(?P=base)\[1:\],\ (?P=base)\[1:\])
"""

import torch


def f(part, whole):
    part.add_(1)
    return whole.sin()


x = torch.ones(1, 3, requires_grad=True)
whole = x * 1
torch.compile(f, backend="aot_eager")(whole[1:], whole).sum().backward()
torch.testing.assert_close(x.grad, torch.ones(1, 3).cos())
