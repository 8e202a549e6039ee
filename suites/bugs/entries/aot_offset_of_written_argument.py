"""A write and a transposition of an argument land at the start of its storage.

kind: silently wrong
expected: The argument, a slice that begins at the third element, keeps its offset of 2.
happens: Its offset becomes that of the graph's output, 0, so that later uses see the elements before the
  slice.
fails: silently wrong: the offset
since: 2.11
reach: internal entry: aot_function; dynamo leaves a transposition of an argument to eager
fuzzer: aot.test_view_programs
upstream: none found
who: Whoever builds a compiler on aot_function and writes to and transposes slices in place.
seen: ^(aot|views): silently wrong: (argument|input) #.*storage_offset
"""

import torch
from functorch.compile import aot_function, nop


def f(a):
    a.mul_(2)
    a.t_()
    return a + 1


x = torch.arange(6.0).reshape(3, 2)[1:]
aot_function(f, nop)(x)
assert x.storage_offset() == 2, f"the offset: {x.storage_offset()}"
