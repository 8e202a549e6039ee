r"""A transposition in place of what conj() gave makes the new guards fail, under dynamic shapes.

kind: internal assertion
expected: What eager gives: conj() of a real tensor is the tensor itself, which is transposed.
happens: "Guard failed on the same frame it was created. This is a bug - please create an issue."
fails: internal assertion: AssertionError: Guard failed on the same frame it was created
since: 2.11
reach: public API
fuzzer: compile
upstream: none found (looked up)
who: Whoever compiles a function for dynamic shapes that transposes in place what it was given.
seen: ^(compile|inductor): internal assertion: AssertionError: Guard failed on the same frame[^|]*\|
    .*= a\.conj\(\); .*(swapaxes_|transpose_|t_)\(
"""

import torch


def f(a):
    b = a.conj()
    b.swapaxes_(0, -1)
    return b.std()


a = torch.tensor([[1.0, 2.0, 3.0]], dtype=torch.float64)
expected = f(a.clone())
got = torch.compile(f, backend="aot_eager", dynamic=True)(a)
assert torch.allclose(got, expected)
