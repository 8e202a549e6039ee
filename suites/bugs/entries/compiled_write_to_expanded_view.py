r"""A compiled zero_() of an expanded view sets the tensor to -1.

kind: silently wrong
expected: a.expand(2, 3).zero_() sets a to 0, as in eager.
happens: a is -1: the difference of each expanded element is added to the tensor, twice. So with aot_eager
  and inductor. Where a has a gradient, the call ends by RuntimeError "more than one element of the written-to
  tensor refers to a single memory location" instead.
fails: silently wrong: the tensor
since: 2.11
reach: public API
fuzzer: aot.test_view_programs
upstream: pytorch/pytorch#197448
who: Whoever clears or fills a tensor through a broadcast view in a compiled function, as for masks and
  caches.
seen: ^(views|aot|compile|inductor): silently wrong: [^|]*\bvalues\b[^|]*\|
    [^|]*\.expand\(2, [^|]*\.(zero_|fill_|masked_fill_)\(
seen: ^(views|aot|compile|inductor): refused: [^|]*more than one element of the written-to tensor[^|]*\|
    [^|]*\b(?P<view>t\d+) = \w+\.expand\(2, [^|]*\b(?P=view)\.(zero_|fill_|masked_fill_)\(
"""

import torch


def f(a):
    a.expand(2, 3).zero_()
    return a + 1


a = torch.ones(3)
torch.compile(f, backend="aot_eager", dynamic=False)(a)
assert a.tolist() == [0, 0, 0], f"the tensor: {a.tolist()}"
