r"""A compiled copy_ of an expanded tensor to itself is refused.

kind: refused
expected: Nothing happens: eager returns at once, where both are the same tensor.
happens: RuntimeError: more than one element of the written-to tensor refers to a single memory location.
fails: refused: TorchRuntimeError: .*call_method copy_
since: 2.11
reach: public API
fuzzer: aot.test_view_programs
upstream: none found
who: Whoever copies a cache to itself where nothing has changed, under the compiler.
seen: ^(views|aot|compile|inductor): refused: [^|]*more than one element of the written-to tensor[^|]*\|
    [^|]*\.expand\([^|]*\b\w+\.copy_\(
"""

import torch


def f(a):
    b = a.expand(2, 3)
    b.copy_(b)
    return b


torch.compile(f, backend="aot_eager")(torch.ones(3))
