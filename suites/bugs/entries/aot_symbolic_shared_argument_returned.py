r"""An argument that is returned fails the tracer under dynamic shapes, when another one shares its memory.

kind: internal assertion
expected: The function is compiled, as it is with static shapes.
happens: "s21 is not tracked with proxy": the size of the shared memory is a symbol that no input of the
  graph has.
fails: refused: RuntimeError: .*is not tracked with proxy
since: 2.11
reach: internal entry: aot_function(dynamic=True)
fuzzer: aot.test_view_programs
upstream: none found; pytorch/pytorch#159709 is of the same message for DTensors
who: Whoever builds a compiler on aot_function with dynamic shapes.
seen: is not tracked with proxy for[^|]*\|(?=[^|]*(\w_\(|\] = |out=| [+*-]= ))
    [^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b[^|]*\|.*dynamic=True
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b):
    b.zero_()
    return a


x = torch.ones(2, 2)
aot_function(f, nop, nop, dynamic=True)(x.view(-1), x)
