r"""Two writes to arguments that share memory fail an assertion of the compiler.

kind: internal assertion
expected: The function is compiled, or runs in eager with a graph break.
happens: "outs_to_grad length (2) != tangents length (3)": each write to the shared memory is counted as an
  output.
fails: internal assertion: BackendCompilerFailed.*outs_to_grad length
since: 2.11
reach: public API
fuzzer: aot.test_view_programs
upstream: none found
who: Whoever passes views of one tensor that needs a gradient, of which two are written to.
seen: ^(views|aot|compile|inductor): internal assertion:
    [^|]*(outs_to_grad length|AssertionError: ref_metadata)[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
"""

import torch


def f(a, b, c):
    a.zero_()
    c.mul_(2)
    return b * 1


x = torch.arange(4.0).requires_grad_()
y = (x * 1).view(2, 2)
torch.compile(f, backend="aot_eager")(y.view(-1), y.view(-1), y.t())
