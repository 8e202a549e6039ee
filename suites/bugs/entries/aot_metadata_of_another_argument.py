r"""An argument gets the sizes of another argument, when its own are changed and the other is returned.

kind: silently wrong
expected: The first argument has the shape (1, 4) after the call, as in eager.
happens: It has the shape (3,) of the second argument.
fails: silently wrong: the shape
since: 2.11
reach: internal entry: aot_function with keep_inference_input_mutations=True
fuzzer: aot.test_view_programs
upstream: none found
who: Whoever builds a compiler on aot_function that keeps writes in the graph.
seen: ^(aot|views): silently wrong: (argument|input) #.*(shape|stride).*input_mutations=True
seen: ^(aot|views): silently wrong: input # \(\w\): (requires_grad|values)[^|]*after the call[^|]*\|
    [^|]*\b(?P<own>[abc])\.(unsqueeze_|squeeze_|t_|transpose_)\([^|]*return [^|]*\b(?!(?P=own))[abc]\b[^|]*\|
    [^|]*\|.*input_mutations=True
seen: ^(aot|views): refused: RuntimeError: setStorage: sizes[^|]*out of bounds[^|]*\|
    [^|]*\b(?P<own>[abc])\.(unsqueeze_|squeeze_|t_|transpose_)\([^|]*return [^|]*\b(?!(?P=own))[abc]\b[^|]*\|
    [^|]*\|.*input_mutations=True
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b):
    b.zero_()
    a.unsqueeze_(0)
    return b


a, b = torch.arange(4.0), torch.arange(3.0)
aot_function(f, nop, keep_inference_input_mutations=True)(a, b)
assert a.shape == (1, 4), f"the shape: {tuple(a.shape)}"
