r"""AOTAutograd loses the gradient of an argument that is added to a written one and then squeezed in place.

kind: silently wrong
expected: A gradient of ones for b, as in eager.
happens: None. The squeeze changes nothing, as no dimension has a size of 1, but the gradient is gone with it.
  With copy_, or with two transpositions, the gradient through the written argument is 0.
fails: silently wrong: gradient
since: 2.11
reach: functorch.compile.aot_function with keep_inference_input_mutations=True; torch.compile is right
fuzzer: views
upstream: none found
who: Whoever compiles a function that changes the sizes of an argument in place.
seen: ^views: silently wrong: gradient of leaf \[#\] through output #: there is none compiled\s*\|
    .*\b(\w+)\.(squeeze_|unsqueeze_|transpose_|t_)\([^|]*\|[^|]*\| dynamic=\w+, keep_input_mutations=True
seen: ^views: silently wrong: gradient of leaf \[#\] through the written input # \(\w\): values differ[^|]*\|
    [^|]*\.\w+_\(\w*(?P<own>[abc])\)[^|]*\b(?P=own)\.(squeeze_|unsqueeze_|transpose_|t_)\(.*dynamic
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b):
    a.add_(b)
    b.squeeze_(0)
    return a


x, y = (torch.ones(2, 3, requires_grad=True) for _ in range(2))
compiled = aot_function(f, nop, nop, keep_inference_input_mutations=True)
compiled(x * 1, y * 1).sum().backward()
assert y.grad is not None, "gradient: none"
