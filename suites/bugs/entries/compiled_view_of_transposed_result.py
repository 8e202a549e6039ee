r"""A compiled function returns wrong values: a view of a result that was transposed in place.

kind: silently wrong
expected: The first output is the second one with a dimension more; a view of a transposed tensor is
  transposed.
happens: AOTAutograd makes the view anew of the result, as it was before it was transposed: the values are
  in the order of the matrix that was not transposed.
fails: silently wrong: values of the view
since: 2.11
reach: public API
fuzzer: aot.test_view_programs
upstream: none found; pytorch/pytorch#186561, for pytorch/pytorch#90507, is to mend such views, too
who: Whoever compiles code that transposes a result in place and returns it together with a view of it.
seen: ^(views|aot|compile|inductor): silently wrong: output #: (values|shape|stride)[^|]*\|
    [^|]*\bt\d+\.(t_|transpose_|swapaxes_)\([^|]*return [^|]*\bt\d
"""

import torch


def f(a):
    out = a * 3
    out.t_()
    return out.unsqueeze(0), out


a = torch.arange(9.0).reshape(3, 3).requires_grad_()
view, out = torch.compile(f, backend="aot_eager")(a)
assert torch.equal(view[0], out), f"values of the view: {view[0]}, of its base: {out}"
