r"""An argument keeps its sizes or strides, when a function changes them and writes to it under no_grad.

kind: silently wrong
expected: The argument's strides are (1, 2) after the call, as in eager and when writes are not kept.
happens: They are (2, 1): the values were copied into the argument as it was, and its change of strides is
  left out. A view of it that is returned has its elements in another order, then. So it is with squeeze_(0),
  where backward may end by "returned an invalid gradient", of the new sizes.
fails: silently wrong: strides
since: 2.11
reach: internal entry: aot_function with keep_inference_input_mutations=True
fuzzer: views
upstream: none found; pytorch/pytorch#186478 is of the same copy after an operator with out=
who: Whoever builds a compiler on aot_function that keeps writes in the graph.
seen: ^(views|aot): silently wrong: [^|]*input # \((?P<own>[abc])\): (shape|stride)[^|]*after the call[^|]*\|
    (?=[^|]*\b(?P=own)\.(t_|transpose_|squeeze_|unsqueeze_)\()[^|]*no_grad\(\): \w+(\[|\.\w+_\()[^|]*\|
    [^|]*\|.*input_mutations=True
seen: ^(views|aot): refused: RuntimeError: Function CompiledFunctionBackward returned an invalid
    gradient[^|]*\| (?=[^|]*\b(?P<own>[abc])\.(squeeze_|unsqueeze_|t_|transpose_)\()[^|]*no_grad\(\):
    (?P=own)(\[|\.\w+_\()[^|]*\|[^|]*\|.*input_mutations=True
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    a.t_()
    with torch.no_grad():
        a.mul_(2)
    return a * 1


y = torch.arange(1.0, 5).reshape(2, 2)
aot_function(f, nop, nop, keep_inference_input_mutations=True)(y)
assert y.stride() == (1, 2), f"strides: {y.stride()}"
