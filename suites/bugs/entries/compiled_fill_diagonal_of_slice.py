r"""fill_diagonal_ of a slice does not compile.

kind: refused
expected: The function is compiled: eager fills the diagonal of the slice y[:2, :2].
happens: 'as_strided_scatter: ... out of bounds for storage': the strides of the slice are applied to a
  tensor without gaps.
fails: refused: BackendCompilerFailed.*as_strided_scatter.*out of bounds
since: 2.11
reach: public API
fuzzer: compile
upstream: pytorch/pytorch#98483
who: Whoever fills the diagonal of a block of a matrix in a compiled function.
seen: out of bounds[^|]*\| [^|]*fill_diagonal_\(
"""

import torch


def f(a):
    a.fill_diagonal_(9)
    return a + 1


torch.compile(f, backend="aot_eager")(torch.ones(3, 3)[:2, :2])
