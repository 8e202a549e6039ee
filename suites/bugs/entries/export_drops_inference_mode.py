r"""An exported module forgets the inference_mode of its forward, and what it makes requires a gradient.

kind: silently wrong
expected: What is made under inference_mode requires no gradient, as in eager, under torch.compile, and in an
  exported module under no_grad.
happens: The output requires a gradient: the exported graph has the operators of the region and not the mode,
  strict or not, so that a backward is recorded. An operator that has none for its dtype is refused, as
  softmax of a complex tensor without elements.
fails: silently wrong: the output requires a gradient
since: 2.11
reach: public API
fuzzer: export
upstream: none found; pytorch/pytorch#195418, mended, is of the mode lost by torch.compile with an option
who: Whoever exports a model with a frozen part under inference_mode, and trains or differentiates around it:
  it costs memory, and gradients flow where eager has none.
seen: ^export: silently wrong: output #: requires_grad[^|]*\| [^|]*with torch\.inference_mode\(\):
seen: ^export: refused: RuntimeError: \w+ does not support automatic differentiation[^|]*\|
    [^|]*with torch\.inference_mode\(\):
"""

import torch


class Model(torch.nn.Module):
    def forward(self, a):
        with torch.inference_mode():
            return a.sin()


a = torch.ones(3, requires_grad=True)
assert not Model()(a).requires_grad
exported = torch.export.export(Model(), (a,)).module()
assert not exported(a).requires_grad, "the output requires a gradient"
