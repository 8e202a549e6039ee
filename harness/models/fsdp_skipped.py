"""``SkipModel``: layers of which tests keep some out of FSDP1."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.distributed.fsdp.wrap import wrap

from harness.models.fsdp import on_device
from harness.requirements import probe


def _square() -> nn.Module:
    return nn.Linear(10, 10, bias=False)


class SkipModule(nn.Module):
    """A layer without bias, ``lin``, of 10 numbers in and out, for tests that keep it out of FSDP1."""

    def __init__(self) -> None:
        super().__init__()
        self.lin = _square()

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 10 numbers in and out."""
        return self.lin(x)


class NestedLinear(nn.Module):
    """A layer without bias of 10 numbers in and out; with ``fsdp_wrap``, wrapped as ``enable_wrap`` says."""

    def __init__(self, fsdp_wrap: bool) -> None:
        super().__init__()
        layer = on_device(_square())
        self.nested_linear = wrap(layer) if fsdp_wrap else layer

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 10 numbers in and out."""
        return self.nested_linear(x)


class SkipModel(nn.Module):
    """Three layers without biases: a plain one, a ``SkipModule`` and a wrapped ``NestedLinear``."""

    def __init__(self, double_nest: bool) -> None:
        super().__init__()
        self.linear = on_device(_square())
        self.linear_skip = on_device(SkipModule())
        device = torch.device(probe().accelerator()[0])
        self.nested_linear = wrap(NestedLinear(fsdp_wrap=double_nest), device_id=device)

    def forward(self, x: Tensor) -> Tensor:
        """Rows of 10 numbers in and out."""
        return self.nested_linear(self.linear_skip(self.linear(x)))
