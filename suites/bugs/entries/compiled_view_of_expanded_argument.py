"""A view of an expanded argument cannot be returned, when the tensor that was expanded is written to.

kind: refused
expected: The view is returned, with the new values: eager runs it.
happens: "shape '[2, 1]' is invalid for input of size 1" at the call: the view is made anew of the tensor
  before it was expanded.
fails: refused: RuntimeError: shape '.*' is invalid for input of size
since: 2.11
reach: public API
fuzzer: compile
upstream: none found
who: Whoever passes a tensor and an expanded view of it to a compiled function that writes to the one and
  returns a view of the other.
seen: refused: RuntimeError: shape '.*' is invalid for input of size.*expand
seen: incorrect out shape after application of ViewMeta sequence.*expand
"""

import torch


def f(a, b):
    a.mul_(3)
    return b.view_as(b)


y = torch.ones(1)
torch.compile(f, backend="aot_eager", dynamic=False)(y, y.expand(2, 1))
