"""A compiled multilabel_margin_loss of one sample without reduction has a dimension more.

kind: silently wrong
expected: The loss of one sample is 0-dimensional, as in eager.
happens: It has the shape (1,).
fails: silently wrong: the shape
since: 2.11
reach: public API
fuzzer: aot.test_module_sweep
upstream: none found; pytorch/pytorch#186074, for wrong values, is to mend it, too
who: Whoever compiles this loss for single samples, and stacks or compares what comes.
"""

import torch


def f(x, target):
    return torch.nn.functional.multilabel_margin_loss(x, target, reduction="none")


x, target = torch.randn(3), torch.tensor([0, -1, -1])
shape = torch.compile(f, backend="aot_eager")(x, target).shape
assert shape == f(x, target).shape, f"the shape: {tuple(shape)}"
