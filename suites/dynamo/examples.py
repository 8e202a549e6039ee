"""Models with inputs to look at: ``python tools/draw_splits.py suites.dynamo.examples:toy -o toy.svg``."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from suites.dynamo.models import TOY_BATCH, TOY_WIDTHS, CustomModel, ToyModel


def toy() -> tuple[nn.Module, Tensor]:
    """The toy in its large size: three buckets at DDP's default cap."""
    return ToyModel(TOY_WIDTHS), torch.randn(TOY_BATCH, TOY_WIDTHS[0])


def custom() -> tuple[nn.Module, Tensor, Tensor]:
    """The model with a layer of its own: three buckets at a cap of 1 MiB."""
    x = torch.randn(4, CustomModel.WIDTH)
    return CustomModel(), x, x
