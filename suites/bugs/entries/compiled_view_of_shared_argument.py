r"""A compiled function returns the wrong row: a view of an argument that shares memory with a written one.

kind: silently wrong
expected: The output is the first row of the second argument, 103 and 104, and its gradient goes there.
happens: The view is made anew of the memory that the arguments share, not of the argument: 101 and 102.
fails: silently wrong: the first row
since: 2.11
reach: public API
fuzzer: aot.test_view_programs
upstream: pytorch/pytorch#198095
who: Whoever passes a tensor and a slice of it, of which one is written to, and returns a view of the slice.
seen: ^(views|aot|compile|inductor): silently wrong: output #: (values|gradient|shape|stride)[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
seen: ^(views|aot|compile|inductor): refused: RuntimeError:
    (shape '[^|]*' is invalid for input of size #|permute|expand|transpose|diagonal|unflatten|split)[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
seen: ^(views|aot|compile|inductor): refused: RuntimeError: The expanded size of the tensor[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
seen: ^(views|aot|compile|inductor): [^|]*incorrect out shape after application of ViewMeta sequence[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
seen: ^(views|aot|compile|inductor): [^|]*AttributeError: 'NoneType' object has no attribute 'shape'[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
"""

import torch


def f(a, b):
    a.add_(100)
    return b[0]


x = torch.arange(1.0, 7.0).reshape(3, 2).requires_grad_()
y = x * 1
row = torch.compile(f, backend="aot_eager")(y, y[1:])
assert row.tolist() == [103, 104], f"the first row: {row}"
