"""A compiled dropout in evaluation returns a copy, so that a write to its result is not seen.

kind: silently wrong
expected: dropout(x, training=False) returns x itself: a write to the result changes x.
happens: The result is a copy of x.
fails: silently wrong: the input
since: 2.11
before: 2.14
reach: public API
fuzzer: aot.test_operator_sweep
upstream: pytorch/pytorch#195422
who: Whoever writes in place to what a module in evaluation returns.
"""

import torch


def f(x):
    return torch.nn.functional.dropout(x, 0.5, training=False)


x = torch.ones(2)
torch.compile(f, backend="aot_eager")(x).zero_()
assert x.tolist() == [0, 0], f"the input: {x.tolist()}"
