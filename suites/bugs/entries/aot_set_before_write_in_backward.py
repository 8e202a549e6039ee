"""set_() of an argument is left out where the backward writes to that argument.

kind: silently wrong
expected: After the backward the argument has the memory that it was given, and what was written: 15.
happens: The argument keeps its own memory and values, with writes kept in the graph. The backward writes to
  the memory that it was given, all the same.
fails: silently wrong: the argument
since: 2.11
reach: internal entry: aot_function with keep_inference_input_mutations=True
fuzzer: none; a row for a mutant of AOTAutograd
upstream: none found
who: Whoever builds a compiler on aot_function for code that swaps storages of buffers, and updates these in
  its backward. Dynamo breaks the graph at such a set_().
"""

import torch
from functorch.compile import aot_function, nop


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.scale = scale
        return x * 2

    @staticmethod
    def backward(ctx, slope):
        ctx.scale.mul_(3)
        return slope * 2, None


def f(x, scale, other):
    with torch.no_grad():
        scale.set_(other)
    return Scaled.apply(x, scale)


scale = torch.zeros(1)
x, other = torch.ones(1, requires_grad=True), torch.full((1,), 5.0)
aot_function(f, nop, keep_inference_input_mutations=True)(x, scale, other).sum().backward()
assert scale.tolist() == [15], f"the argument: {scale.tolist()}, and what it was given: {other.tolist()}"
