r"""A write that stays in the graph, beside a tensor that is given twice and written to, ends the compilation.

kind: internal assertion
expected: The function is compiled, as it is without keep_inference_input_mutations.
happens: "IndexError: list index out of range": where duplicates are removed, tangents of all written
  arguments are counted, by indices of those alone whose writes are done behind the graph.
fails: internal assertion: IndexError: list index out of range
since: 2.11
reach: functorch.compile.aot_function with keep_inference_input_mutations=True; torch.compile is right
fuzzer: views
upstream: none found
who: Whoever compiles by AOTAutograd itself, as torch.compile does, and gives it a tensor twice.
seen: ^views: internal assertion: IndexError: list index out of range
    \| [^|]*\| (?:[^|]*, )?(?P<given>[xy]\d)(?=, )[^|]*, (?P=given)(?=,| \|)
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b, c):
    b.mul_(2)
    c.mul_(3)
    return a + b


y = torch.ones(4, requires_grad=True) * 1
aot_function(f, nop, nop, keep_inference_input_mutations=True)(y, y, torch.ones(4))
