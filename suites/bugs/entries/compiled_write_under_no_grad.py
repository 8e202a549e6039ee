r"""A compiled write under no_grad cuts the gradient of an argument off.

kind: silently wrong
expected: The write is not recorded, so the gradient flows through both arguments as in eager: 1, 1, 1.
happens: The write is done after the graph, outside of no_grad, as a copy_ that is recorded: the gradient is
  0, 0, 0. So with inductor, and under inference_mode; torch.compile needs a second argument that shares the
  memory, aot_function with keep_inference_input_mutations=False none.
fails: silently wrong: gradient
since: 2.11
reach: public API
fuzzer: aot.test_view_programs, compile
upstream: none found; pytorch/pytorch#122436 is of a view that the function itself makes
who: Whoever updates a tensor under no_grad in a compiled function to which a view of it is passed, too, as
  for weight normalisation or a running statistic: the parameters before it are not trained.
seen: silently wrong: [^|]*gradient[^|]*\|.*unrecorded writes to
"""

import torch


def f(a, b):
    with torch.no_grad():
        b.add_(1)
    return a


x = torch.arange(3.0).requires_grad_()
y = x * 1
torch.compile(f, backend="aot_eager", dynamic=False)(y.view(-1), y).sum().backward()
assert x.grad.tolist() == [1, 1, 1], f"gradient: {x.grad}"
