r"""A write and a change of sizes of one argument fail at the call, when writes are kept in the graph.

kind: refused
expected: A write under no_grad: the argument is 2, 2, 2 with the shape (1, 3), as in eager and when writes
  are not kept.
happens: 'expand: the requested shape has too few dimensions!': the argument of the new sizes is copied into
  the one of the old.
fails: refused: RuntimeError: expand: the requested shape has too few dimensions
since: 2.11
reach: internal entry: aot_function with keep_inference_input_mutations=True
fuzzer: aot.test_view_programs
upstream: none found; pytorch/pytorch#186478 is of the same copy after an operator with out=
who: Whoever builds a compiler on aot_function that keeps writes in the graph.
seen: expand: the requested shape has too few dimensions
seen: ^(views|aot): refused: RuntimeError: expand: attempting to expand a dimension[^|]*\|
    [^|]*\b[abc]\.(t_|transpose_|unsqueeze_|squeeze_)\(.*mutations=True
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    with torch.no_grad():
        a.mul_(2)
    a.unsqueeze_(0)
    with torch.no_grad():
        return a + a


x = torch.ones(3, requires_grad=True)
aot_function(f, nop, nop, keep_inference_input_mutations=True)(x * 1)
