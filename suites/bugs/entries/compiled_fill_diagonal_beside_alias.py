r"""fill_diagonal_ of an argument does not compile, when another argument shares its memory.

kind: refused
expected: The function is compiled or runs in eager: eager runs it, and it has no as_strided.
happens: 'encountered a mutation on a view chain of length 2, where view 1 was an as_strided() call'; the
  as_strided is the compiler's own.
fails: refused: BackendCompilerFailed.*encountered a mutation on a view chain
since: 2.11
reach: public API
fuzzer: compile
upstream: none found; pytorch/pytorch#122502 made the refusal, for an as_strided of the user
who: Whoever passes a matrix and its flat view to a compiled function that fills the diagonal.
seen: encountered a mutation on a view chain[^|]*\| [^|]*fill_diagonal_\(
"""

import torch


def f(a, b):
    b.fill_diagonal_(9)
    return a + 1


y = torch.ones(3, 3)
torch.compile(f, backend="aot_eager")(y.view(-1), y)
