"""The last part of a split of an argument is None inside of the compiler, when the memory is written to.

kind: internal assertion
expected: The part is returned: eager runs it.
happens: "'NoneType' object has no attribute 'shape'".
fails: internal assertion: AttributeError: 'NoneType' object has no attribute 'shape'
since: 2.11
reach: public API
fuzzer: compile
upstream: none found
who: Whoever passes a tensor and a part of it, writes to the one and returns a piece of a split of the
  other.
seen: AttributeError: 'NoneType' object has no attribute 'shape'
"""

import torch


def f(a, b):
    b.relu_()
    return a.split(1)[-1]


y = torch.arange(6.0).reshape(2, 3)
torch.compile(f, backend="aot_eager", dynamic=False)(y[0], y)
