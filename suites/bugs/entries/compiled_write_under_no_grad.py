r"""A write to an argument under no_grad cuts its gradient off when the compiled function returns it.

kind: silently wrong
expected: The write is not recorded, so the gradient flows to all elements, as in eager: 1, 1, 1.
happens: The write is done after the graph, outside of no_grad, as a copy_ that is recorded: the gradient is
  0, 0, 0.
fails: silently wrong: gradient
since: 2.11
reach: internal entry: aot_function with keep_inference_input_mutations=False; torch.compile keeps them
fuzzer: aot.test_view_programs
upstream: none found
who: Whoever builds a compiler on aot_function or aot_module and writes to parameters or buffers under
  no_grad.
seen: silently wrong: .*gradient.*with torch\.no_grad\(\): .*input_mutations=False
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    with torch.no_grad():
        a[0] = 7
    return a


x = torch.arange(3.0).requires_grad_()
aot_function(f, nop, nop)(x * 1).sum().backward()
assert x.grad.tolist() == [1, 1, 1], f"gradient: {x.grad}"
