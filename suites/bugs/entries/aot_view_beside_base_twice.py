r"""A write is refused when one argument is a view of a tensor and two others are that tensor itself.

kind: internal assertion
expected: The function is compiled, as it is with the tensor once: a duplicate adds nothing.
happens: "aot_autograd() does not yet handle non-differentiable view input mutations", an AssertionError: of
  the view, the base and the base again the bases in autograd are compared, and that of a base is none.
fails: internal assertion: AssertionError.*does not yet handle non-differentiable view input mutations
since: 2.11
reach: functorch.compile.aot_function; torch.compile is right
fuzzer: views
upstream: none found
who: Whoever compiles a function by AOTAutograd that is given a tensor twice, beside its part.
seen: ^views: internal assertion: [^|]*does not yet handle non-differentiable view input mutations[^|]*\|
    [^|]*\| (?=[^|]*\b(?P<base>y\d)\b(?![.\[])[^|]*\b(?P=base)\b(?![.\[]))[^|]*\b(?P=base)[.\[]
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b, c):
    a[0] = 7
    return b + c


y = torch.arange(1.0, 5).reshape(2, 2)
aot_function(f, nop, nop)(y[1:], y, y)
