r"""Exporting a module that adds a dimension to its input in place ends in an IndexError of the guards.

kind: internal assertion
expected: The module is exported, or refused in words that say what it may not do.
happens: IndexError: list index out of range, raised where the guards for the input's new dimensions are made.
  So it is with set_() of a tensor of more dimensions.
fails: internal assertion: IndexError: list index out of range
since: 2.11
reach: public API
fuzzer: export
upstream: pytorch/pytorch#198100 has the same IndexError by torch.compile, through an alias of the input
who: Whoever exports a model whose forward calls unsqueeze_ on its input.
seen: ^export: internal assertion: IndexError: list index out of range[^|]*\|
    [^|]*\b[abc]\.(unsqueeze_|set_)\(
"""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        x.unsqueeze_(0)
        x.add_(x)
        return x.clone()


x = torch.arange(3.0)
exported = torch.export.export(Model(), (x.clone(),), strict=False).module()
torch.testing.assert_close(exported(x.clone()), 2 * x[None])
