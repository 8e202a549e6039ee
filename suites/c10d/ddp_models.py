"""The modules that the DDP suites train: small, each with one property that DDP has to cope with.

None of them knows of DDP. Weights come from torch's default generator, so a seed before the constructor makes
every rank hold the same; ``DdpTestCase`` in ``ddp_base`` does the seeding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

Devices = Sequence[torch.device | str | int]

#: What the layers of ``ConvNet`` turn into what: five numbers of channels, four convolutions.
CHANNELS = (8, 16, 32, 16, 8)


class Net(nn.Module):
    """2 -> 10 -> 50 -> 4 numbers a row: three layers without bias, then a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.fc1 = nn.Linear(2, 10, bias=False)
        self.fc2 = nn.Linear(10, 50, bias=False)
        self.fc3 = nn.Linear(50, 4, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.fc1(x).relu()
        x = self.fc2(x).relu()
        return self.fc3(x).softmax(dim=1)


class FrozenParameter(nn.Module):
    """Holds a whole-number parameter that no gradient can be taken of."""

    def __init__(self, device: torch.device | str | int) -> None:
        super().__init__()
        # Made on its device: moving a Parameter to another device gives a tensor, which is not registered.
        self.value = nn.Parameter(torch.tensor([2, 2], device=device), requires_grad=False)


class ChainOnDevices(nn.Module):
    """Linear layers without bias, each on a device of its own choice; the result returns to the first device.

    ``widths``: the numbers of features before, between and after the layers; one device a layer. ReLU stands
    between layers, a softmax at the end. A frozen parameter of whole numbers rides along on the first device.
    """

    def __init__(self, widths: Sequence[int], devices: Devices) -> None:
        super().__init__()
        pairs = list(pairwise(widths))
        self.devices = list(devices)
        self.layers = nn.ModuleList(
            nn.Linear(before, after, bias=False).to(device)
            for (before, after), device in zip(pairs, devices, strict=True)
        )
        self.no_grad_param = FrozenParameter(self.devices[0])

    def forward(self, x: Tensor) -> Tensor:
        last = len(self.layers) - 1
        for index, (layer, device) in enumerate(zip(self.layers, self.devices, strict=True)):
            x = layer(x.to(device))
            x = x if index == last else x.relu()
        return x.softmax(dim=1).to(self.devices[0])


class DoubleGpuNet(ChainOnDevices):
    """``Net`` over two devices: the first layer on one, the others on the second. Any device type will do."""

    def __init__(self, devices: Devices) -> None:
        first, second = devices
        super().__init__((2, 10, 50, 4), (first, second, second))


class QuadraGpuNet(ChainOnDevices):
    """``Net`` and a fourth layer, each on a device of its own. Any device type will do."""

    def __init__(self, devices: Devices) -> None:
        super().__init__((2, 10, 50, 4, 4), devices)


class ConvNet(nn.Module):
    """Four 2x2 convolutions over 8, 16, 32, 16, 8 channels, each in a memory format and dtype of its own.

    ``devices``: one for all, or four. The input is cast to what the first layer needs, then each result to
    what the next one needs.
    """

    def __init__(
        self,
        devices: torch.device | str | Devices,
        layouts: Sequence[torch.memory_format],
        dtypes: Sequence[torch.dtype],
    ) -> None:
        super().__init__()
        one_device = isinstance(devices, (torch.device, str))
        places = [devices] * len(layouts) if one_device else list(devices)
        self.places = list(zip(places, dtypes, strict=True))
        self.convolutions = nn.ModuleList(
            nn.Conv2d(before, after, 2).to(device=device, dtype=dtype, memory_format=layout)
            for (before, after), layout, (device, dtype) in zip(
                pairwise(CHANNELS), layouts, self.places, strict=True
            )
        )

    def forward(self, x: Tensor) -> Tensor:
        for convolution, (device, dtype) in zip(self.convolutions, self.places, strict=True):
            x = convolution(x.to(device, dtype))
        return x


class Task(nn.Module):
    """Adds a 2x2 parameter of ones: the mean of the result has the gradient 0.25, whatever is put in."""

    def __init__(self) -> None:
        super().__init__()
        self.register_parameter("p", nn.Parameter(torch.ones((2, 2))))

    def forward(self, x: Tensor | int) -> Tensor:
        return x + self.p


class ModuleForDdpCommHook(nn.Module):
    """A ``Task`` that is given the rank beside its input."""

    def __init__(self) -> None:
        super().__init__()
        self.t0 = Task()

    def forward(self, x: Tensor | int, rank: int) -> Tensor:
        return self.t0(x + rank)


class SparseGradientModule(nn.Module):
    """Bags of 10 embeddings of width 10 whose weight gets a sparse gradient; then a softmax."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.EmbeddingBag(10, 10, sparse=True)

    def forward(self, x: Tensor) -> Tensor:
        return self.embedding(x).softmax(dim=1)


class TwoLayers(nn.Module):
    """Two layers of 20 features, ``l1`` and ``l2``; with ``shared`` they are one weight and two biases."""

    def __init__(self, use_reentrant: bool = True, *, shared: bool = False) -> None:
        super().__init__()
        self.use_reentrant = use_reentrant
        self.l1 = nn.Linear(20, 20)
        self.l2 = nn.Linear(20, 20)
        if shared:
            self.l2.weight = self.l1.weight

    def recomputed(self, layer: nn.Module, x: Tensor) -> Tensor:
        """Run a layer without keeping its activations: backward runs it again."""
        return checkpoint(layer, x, use_reentrant=self.use_reentrant)


class CheckpointOnceModule(TwoLayers):
    """The second layer is recomputed in backward."""

    def forward(self, x: Tensor) -> Tensor:
        return self.recomputed(self.l2, self.l1(x))


class CheckpointTwiceModule(TwoLayers):
    """The second layer is used two times, and each use is recomputed in backward."""

    def forward(self, x: Tensor) -> Tensor:
        return self.recomputed(self.l2, self.recomputed(self.l2, self.l1(x)))


class CheckpointTwiceModuleWeightSharing(CheckpointTwiceModule):
    """The same, on one weight."""

    def __init__(self, use_reentrant: bool = True) -> None:
        super().__init__(use_reentrant, shared=True)


class DynamicCheckpointTwiceModule(TwoLayers):
    """Uses one layer a call, recomputed: the second one in even calls, the first one in odd calls."""

    def __init__(self, use_reentrant: bool = True, *, shared: bool = False) -> None:
        super().__init__(use_reentrant, shared=shared)
        self.calls = 0

    def forward(self, x: Tensor) -> Tensor:
        layer = self.l1 if self.calls % 2 else self.l2
        self.calls += 1
        return self.recomputed(layer, x)


class DynamicCheckpointTwiceModuleWeightSharing(DynamicCheckpointTwiceModule):
    """The same, on one weight: only the biases take turns."""

    def __init__(self, use_reentrant: bool = True) -> None:
        super().__init__(use_reentrant, shared=True)


@dataclass
class CustomOutput:
    """What ``DataclassOutputModule`` returns: a tensor that may be missing, and tensors in a dictionary."""

    o1: Tensor | None
    o2: dict[str, Tensor]


class DataclassOutputModule(nn.Module):
    """Two stacks of three layers of 10 features, whose results come in a dataclass.

    With ``skip_o1`` the first stack is not used, so its parameters get no gradient.
    """

    def __init__(self, skip_o1: bool) -> None:
        super().__init__()
        self.skip_o1 = skip_o1
        self.seq1 = nn.Sequential(*(nn.Linear(10, 10) for _ in range(3)))
        self.seq2 = nn.Sequential(*(nn.Linear(10, 10) for _ in range(3)))

    def forward(self, x: Tensor) -> CustomOutput:
        o1 = None if self.skip_o1 else self.seq1(x).relu()
        a = self.seq2(x)
        return CustomOutput(o1, {"a": a, "b": a.relu()})


class Branches(nn.Module):
    """Three layers of 4 features of which a call uses the named ones, one after the other."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(4, 4) for name in "abc"})

    def forward(self, x: Tensor, names: str = "abc") -> Tensor:
        for name in names:
            x = self.layers[name](x)
        return x
