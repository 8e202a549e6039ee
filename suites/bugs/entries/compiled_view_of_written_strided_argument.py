r"""A compiled function returns neighbours' values: a view of a strided argument that was written to.

kind: silently wrong
expected: The output is the argument as it is after the write, 7 and 3, with its stride of 2.
happens: 7 and 2, with a stride of 1: with dynamic shapes the view is made anew by the strides that the
  argument's copy has in the graph, on the memory of the argument, where its elements lie apart. A write to
  the output goes to the neighbour, and so does the gradient. The copy's offset is taken, too: of a slice that
  begins at the second element, x.expand(2, *x.shape) begins at the first.
fails: silently wrong: the view
since: 2.11
reach: public API
fuzzer: views
upstream: pytorch/pytorch#103650 asks that views are not made anew by strides, for other backends
who: Whoever compiles with dynamic shapes what writes to a column of a tensor with gradient, and returns it.
seen: ^(views|aot|compile|inductor): silently wrong: output #: (stride|storage_offset|values)[^|]*\|
    (?=[^|]*\b([a-e]|t\d)(\.\w+_\(|\[0\] = ))[^|]*\b[a-e]\.(view_as|view|unsqueeze|expand|detach)\([^|]*\|
    [^|;]*(\[:, 0\]|\[1:\]|\[\.\.\., ::2\])[^|]*\| dynamic=True
"""

import torch


def f(a):
    a[0] = 7
    return a.view_as(a)


x = torch.arange(1.0, 5).reshape(2, 2).requires_grad_()
y = x * 1
found = torch.compile(f, backend="aot_eager", dynamic=True)(y[:, 0])
assert found.tolist() == [7, 3], f"the view: {found.tolist()}, stride {found.stride()}"
