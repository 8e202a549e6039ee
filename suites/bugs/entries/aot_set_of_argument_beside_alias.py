"""set_() of an argument to another one that shares its memory is done with the wrong tensor.

kind: silently wrong
expected: The second argument is the first one afterwards: 0, 1, 2.
happens: The second argument has other values, with writes kept in the graph.
fails: silently wrong: the argument
since: 2.11
reach: internal entry: aot_function with keep_inference_input_mutations=True
fuzzer: aot
upstream: none found
who: Whoever builds a compiler on aot_function for code that swaps storages, as FSDP's does.
seen: ^aot: silently wrong: argument #: .*[.]set_[(]
"""

import torch
from functorch.compile import aot_function, nop


def f(a, b):
    b.set_(a)
    return a


y = torch.arange(3.0)
b = y[1:]
aot_function(f, nop, keep_inference_input_mutations=True)(y, b)
assert b.tolist() == [0, 1, 2], f"the argument: {b.tolist()}"
