"""The modules that the suites of compiled models share, and the stand-in for DDP that needs no process group.

Weights come from torch's default generator, so a seed before the constructor makes every rank hold the same.
Sizes are part of the tests: DDPOptimizer splits by bytes of parameters.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from itertools import pairwise
from typing import Any

import torch
import torch._dynamo
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

MIB = 1024 * 1024
#: The widths before, between and after the layers of the toy: its layers weigh 220,000, 100,020,000,
#: 100,020,000 and 100,020 bytes.
TOY_WIDTHS = (10, 5000, 5000, 5000, 5)
TOY_BATCH = 20
#: The same in small: with a cap of 1 MiB it falls apart as the large one does with 25 MiB. Its layers weigh
#: 26,400, 1,442,400, 1,442,400 and 12,020 bytes.
SMALL_WIDTHS = (10, 600, 600, 600, 5)
#: Equal layers for inductor, which makes the same C++ of each. They weigh 641,600 bytes: with a cap of 1 MiB
#: two make a piece, and the first is one by itself.
EQUAL_WIDTHS = (400,) * 6


class ToyModel(nn.Module):
    """Linear layers with a ReLU after each, in a Sequential ``net``; ``context()`` is around the forward."""

    def __init__(
        self,
        widths: tuple[int, ...] = TOY_WIDTHS,
        context: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in pairwise(widths):
            linear = nn.Linear(before, after)
            nn.init.xavier_uniform_(linear.weight)
            nn.init.constant_(linear.bias, 0.01)
            layers += [linear, nn.ReLU()]
        self.net = nn.Sequential(*layers)
        self.widths = widths
        self.context = context

    def forward(self, x: Tensor) -> Tensor:
        with self.context():
            return self.net(x)


def toy(
    device: str,
    widths: tuple[int, ...] = TOY_WIDTHS,
    batch: int = TOY_BATCH,
    context: Callable[[], AbstractContextManager[Any]] = nullcontext,
) -> tuple[ToyModel, Tensor, Tensor]:
    """A toy model, an input for it, and what it makes of that before anything is wrapped or compiled."""
    model = ToyModel(widths, context).to(device)
    x = torch.randn(batch, widths[0], device=device)
    return model, x, model(x)


def weight(width: int) -> nn.Parameter:
    """A square weight that keeps a row's size about what it was; of width 512, just a bucket of 1 MiB."""
    return nn.Parameter(torch.randn(width, width) / width**0.5)


class OwnLinear(nn.Module):
    """A layer that torch has no module for: its parameter is used by a method, and by no layer's call."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(width, width))

    def forward(self, x: Tensor) -> Tensor:
        product = torch.mm(x, self.weight.t())
        return product + torch.where(product < 0.5, 0.3, 0.6)


class HeldLinear(nn.Module):
    """A module that holds the layer instead of being it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x)


class CustomModel(nn.Module):
    """Three layers of just over, of exactly, and of just over 1 MiB; the sum of two inputs goes in."""

    WIDTH = 512

    def __init__(self) -> None:
        super().__init__()
        self.seq = nn.Sequential(
            HeldLinear(self.WIDTH),
            nn.ReLU(),
            OwnLinear(self.WIDTH),
            nn.ReLU(),
            HeldLinear(self.WIDTH),
            nn.ReLU(),
        )

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        return self.seq(x + y)


class CheckpointedLayers(nn.Module):
    """Two pairs of layers of 8,008,000 bytes, each recomputed in the backward, with a cosine after it."""

    WIDTH = 1000

    def __init__(self) -> None:
        super().__init__()
        self.pairs = nn.ModuleList(
            nn.Sequential(nn.Linear(self.WIDTH, self.WIDTH), nn.Linear(self.WIDTH, self.WIDTH))
            for _ in range(2)
        )

    def forward(self, x: Tensor) -> Tensor:
        for pair in self.pairs:
            x = checkpoint(pair, x, use_reentrant=False).cos()
        return x


class FakeDDP(nn.Module):
    """What DDPOptimizer looks at of DDP, without a process group: the cap, and the mark of the active module.

    ``bucket_cap_mb`` in MiB, as DDP's.
    """

    def __init__(self, module: nn.Module, bucket_cap_mb: float = 25) -> None:
        super().__init__()
        self.module = module
        self.bucket_bytes_cap = int(bucket_cap_mb * MIB)

    # As in DDP, what is compiled is the module within: this frame only sets the mark.
    @torch._dynamo.disable(recursive=False)
    def forward(self, *args: Any, **kwargs: Any) -> Any:
        DistributedDataParallel._active_ddp_module = self
        try:
            return self.module(*args, **kwargs)
        finally:
            DistributedDataParallel._active_ddp_module = None
