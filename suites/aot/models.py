"""Networks that several modules of this suite trace."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import nn


class Residual(nn.Module):
    """Two 3x3 convolutions beside a shortcut, which is a 1x1 convolution where the shapes differ."""

    def __init__(self, channels: int, width: int, stride: int) -> None:
        super().__init__()
        self.path = nn.Sequential(
            OrderedDict(
                first=_convolution(channels, width, 3, stride),
                first_norm=nn.BatchNorm2d(width),
                between=nn.ReLU(inplace=True),
                second=_convolution(width, width, 3, 1),
                second_norm=nn.BatchNorm2d(width),
            )
        )
        same = stride == 1 and channels == width
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(_convolution(channels, width, 1, stride), nn.BatchNorm2d(width))
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """``images`` (n, channels, h, w) to (n, width, h / stride, w / stride)."""
        return torch.relu_(self.path(images) + self.shortcut(images))


def resnet18(width: int = 64, classes: int = 1000) -> nn.Sequential:
    """The residual network of 18 layers (He et al., 2015, table 1), ``width`` channels in its first stage.

    Takes images (n, 3, h, w), gives (n, classes). It has 20 convolutions, a batch norm behind each.
    """
    stages: list[nn.Module] = []
    channels = width
    for stage in range(4):
        wide = width * 2**stage
        stages += [Residual(channels, wide, 1 if stage == 0 else 2), Residual(wide, wide, 1)]
        channels = wide
    stem = [_convolution(3, width, 7, 2), nn.BatchNorm2d(width), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1)]
    head = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes)]
    return nn.Sequential(*stem, *stages, *head)


def _convolution(channels: int, width: int, kernel: int, stride: int) -> nn.Conv2d:
    return nn.Conv2d(channels, width, kernel, stride, padding=kernel // 2, bias=False)
