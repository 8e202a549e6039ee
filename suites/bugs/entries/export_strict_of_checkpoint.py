r"""A module with activation checkpointing is exported strictly, and what was exported cannot be called.

kind: refused
expected: The exported module gives what the module gives, as it does where it is exported with strict=False.
happens: The call ends by RuntimeError: _checkpoint_context_fn, which the exported graph's node lacks.
fails: refused: RuntimeError: _checkpoint_context_fn
since: 2.11
reach: public API
fuzzer: export
upstream: none found
who: Whoever exports a model that was trained with activation checkpointing by strict=True.
seen: ^export: refused: RuntimeError: _checkpoint_context_fn[^|]*\| [^|]*checkpoint\(
"""

import torch
from torch.utils.checkpoint import checkpoint


class Model(torch.nn.Module):
    def forward(self, x):
        return checkpoint(torch.sin, x, use_reentrant=False)


x = torch.arange(3.0)
exported = torch.export.export(Model(), (x,), strict=True).module()
torch.testing.assert_close(exported(x), x.sin())
