r"""A compiled function that returns its argument returns another tensor, when arguments share memory.

kind: silently wrong
expected: The function returns its first argument itself, as in eager: ``f(a, b) is a``.
happens: It returns a new tensor that shares the memory.
fails: silently wrong: another object
since: 2.11
reach: public API
fuzzer: aot.test_view_programs
upstream: none found; pytorch/pytorch#185029 is of outputs that were the wrong argument itself
who: Whoever compares tensors by identity, or keeps state in an attribute of a tensor.
seen: ^(aot|compile|inductor): silently wrong: output #: is argument[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
seen: ^(views|aot|compile|inductor): silently wrong:
    (output #|the output): is the object of (nothing|input #)[^|]* compiled[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
"""

import torch


def f(a, b):
    b.zero_()
    return a


x = torch.ones(2, 2)
a = x.view(-1)
assert torch.compile(f, backend="aot_eager")(a, x) is a, "another object"
