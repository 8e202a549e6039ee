r"""A module that calls torch.func.grad is exported with a fake tensor for a constant, and gives another.

kind: silently wrong
expected: The exported module gives the gradient, cos(x), as the module does and as it does compiled.
happens: It gives a FakeTensor, which has no values: the seed of the backward was kept as a constant while it
  was fake. torch.func.vjp and jacrev do so, too. The export of torch 2.11 and 2.12 ended by AssertionError
  "Expected FakeTensor, got <class 'torch.Tensor'>".
fails: ^silently wrong: the gradient is a FakeTensor|^internal assertion: AssertionError: Expected FakeTensor
since: 2.11
reach: public API
fuzzer: export
upstream: none found; pytorch/pytorch#146719 is of such a constant by torch.autograd.grad, and
  pytorch/pytorch#153063 of torch.func.vmap
who: Whoever exports a model that computes forces, scores or other gradients in its forward.
seen: ^export: refused: RuntimeError: Cannot access data pointer of Tensor[^|]*\| [^|]*torch\.func\.grad\(
seen: ^export: refused: DataDependentOutputException: aten\.allclose[^|]*\| [^|]*torch\.func\.grad\(
seen: ^export: internal assertion: AssertionError: Expected FakeTensor[^|]*\| [^|]*torch\.func\.grad\(
"""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.func.grad(lambda each: each.sin().sum())(x)


x = torch.arange(3.0)
gradient = torch.export.export(Model(), (x,)).module()(x)
assert type(gradient) is torch.Tensor, f"the gradient is a {type(gradient).__name__}"
torch.testing.assert_close(gradient, x.cos())
