r"""A compiled function's output cannot be written to, when the function wrote to it through a view.

kind: refused
expected: The output is a plain tensor, as in eager, and can be written to.
happens: RuntimeError: Output 0 of CompiledFunction is a view and is being modified inplace: what was written
  to through the view is made anew from the view, and is returned as one. So it is for the other views of
  it that are returned, such as that view itself.
fails: refused: RuntimeError: Output # of CompiledFunction(Backward)? is a view
since: 2.11
reach: public API
fuzzer: views
upstream: none found; pytorch/pytorch#113793, closed, is of views that are compiled without what wrote to them
who: Whoever fills a tensor through view(-1) in a compiled function, and goes on in place outside of it.
seen: ^(views|aot|compile|inductor): silently wrong: writing to output #: raised RuntimeError: Output # of \w+
    is a view and is being modified inplace. This view was created inside a custom Function[^|]*\|[^|]*
    \b(?P<view>\w+) = \w+(\.\w+\(|\[)[^|]*\b(?P=view)(\.\w+_\(|\[[^]]*\] =| [+*-]=)
"""

import torch


def f(a):
    doubled = a + a
    view = doubled.view(-1)
    view.mul_(2)
    return doubled


x = torch.arange(1.0, 5).reshape(2, 2).requires_grad_()
torch.compile(f, backend="aot_eager")(x * 1).mul_(3)
