r"""Exporting a module that transposes its input in place, a view of a matrix, ends in an assertion.

kind: internal assertion
expected: The module is exported, as it is where the input is no view, or refused in words that say what it
  may not do.
happens: AssertionError: sources must not be empty for symbol, raised where the guards are made: those for the
  view's base use sizes that the view has no longer.
fails: ^internal assertion: AssertionError: sources must not be empty for symbol
since: 2.11
reach: public API
fuzzer: export
upstream: none found
who: Whoever exports a model whose forward calls t_ or transpose_ on its input, with a slice of a batch.
seen: ^export: internal assertion: AssertionError: sources must not be empty[^|]*\|
    [^|]*\b[abc]\.(t_|transpose_|swapaxes_|squeeze_)\(
"""

import torch


class Model(torch.nn.Module):
    def forward(self, x):
        x.t_()
        return x + 1


x = torch.arange(6.0).reshape(2, 3).clone()
exported = torch.export.export(Model(), (x[1:],), strict=False).module()
torch.testing.assert_close(exported(x[1:]), x[1:].t() + 1)
