r"""A compiled function returns a copy: of a view of an argument that was written to and set to itself.

kind: silently wrong
expected: The output is a view of the argument, as set_ of a tensor to itself changes nothing: a write to the
  output is a write to the argument.
happens: The output has the right values in memory of its own. The argument does not see the write.
fails: silently wrong: the argument
since: 2.11
reach: public API
fuzzer: compile
upstream: none found
who: Whoever compiles code that swaps storages by set_, where it may be given one and the same tensor.
seen: ^(views|aot|compile|inductor): silently wrong: output #: shares memory with[^|]*\|
    [^|]*(?P<view>\bt\d+) = \w+\.[^|]*\b(?P=view)\.set_\((?P=view)\)
"""

import torch


def f(a):
    turned = a.t()
    a.mul_(2)
    turned.set_(turned)
    return turned


x = torch.ones(2, 2)
torch.compile(f, backend="aot_eager")(x).zero_()
assert x.tolist() == [[0, 0], [0, 0]], f"the argument: {x.tolist()}"
