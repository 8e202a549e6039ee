r"""A compiled function returns another tensor's values: views of a result, when two arguments share memory.

kind: silently wrong
expected: The second output is the transpose of the first one, with its gradient.
happens: The number of the base among the outputs is looked up among the inputs, which were merged into one:
  the second output is the transpose of the argument, without gradient to the product.
fails: silently wrong: values of the transpose
since: 2.11
reach: public API
fuzzer: aot.test_view_programs
upstream: none found; pytorch/pytorch#198095 is of views of an argument
who: Whoever passes two views of one tensor, of which one is written to, and returns a view of a result.
seen: ^(views|aot|compile|inductor): silently wrong: output #: values[^|]*\|
    (?=[^|]*(\w_\(|\] = |out=| [+*-]= ))[^|]*return [^|]*\bt\d[^|]*\| [^|;]*(?P<base>y\d)\b[^|;]*, (?P=base)\b
"""

import torch


def f(a, b):
    a.mul_(2)
    product = a * b
    return a.view(2, 2), product, product.t()


x = torch.arange(1.0, 5.0).requires_grad_()
y = x * 1
_, product, transposed = torch.compile(f, backend="aot_eager")(y.view(2, 2), y.view(2, 2))
assert torch.equal(transposed, product.t()), (
    f"values of the transpose: {transposed}, of the matrix: {product}"
)
