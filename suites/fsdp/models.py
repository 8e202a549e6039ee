"""The models that the FSDP suites train: small, and made alike by ranks whose generators are seeded alike."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor, nn

WIDTH = 8


class Block(nn.Module):
    """Two layers beside a residual connection: the unit that is sharded, compiled or checkpointed alone."""

    def __init__(self, width: int = WIDTH) -> None:
        super().__init__()
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(torch.relu(self.up(x)))


class Net(nn.Module):
    """A layer of its own, two blocks, and a head: 8 numbers a row in, 4 out."""

    #: Numbers a row, in and out.
    WIDTHS = (WIDTH, 4)

    @staticmethod
    def units(blocks: int = 2) -> list[list[str]]:
        """The names of the parameters of each unit, the root's first, where each block is one."""
        own = ["stem.weight", "stem.bias", "head.weight", "head.bias"]
        inner = ["up.weight", "up.bias", "down.weight", "down.bias"]
        return [own, *([f"blocks.{number}.{name}" for name in inner] for number in range(blocks))]

    def __init__(self, blocks: int = 2) -> None:
        super().__init__()
        self.stem = nn.Linear(WIDTH, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.tanh(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.head(x)


#: Elements of the parameters of a ``Net``: of all, of a block, and of what belongs to no block.
ELEMENTS = {"all": 668, "block": 280, "own": 108}


class Toy(nn.Module):
    """Linear layers with a ReLU after each, in a ``Sequential`` called ``net``: 10 numbers in, 5 out.

    Weights are drawn uniformly after Glorot, biases are 0.01.
    """

    WIDTHS = (10, 5)

    def __init__(self, layers: int = 4, hidden: int = 32) -> None:
        super().__init__()
        sizes = [10, *[hidden] * (layers - 1), 5]
        modules: list[nn.Module] = []
        for inputs, outputs in itertools.pairwise(sizes):
            modules += [nn.Linear(inputs, outputs), nn.ReLU()]
        self.net = nn.Sequential(*modules)
        for layer in self.net:
            if isinstance(layer, nn.Linear):
                nn.init.xavier_uniform_(layer.weight)
                nn.init.constant_(layer.bias, 0.01)

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x)


class Mutating(Toy):
    """Sets an attribute of its own in the forward, and multiplies by it."""

    def __init__(self) -> None:
        super().__init__()
        self.state = 1

    def forward(self, x: Tensor) -> Tensor:
        self.state = 2
        return super().forward(x) * self.state


class Hidden(nn.Module):
    """A layer among its modules, and one that only its ``__dict__`` knows of: 10 numbers in, 5 out.

    Nobody shards or trains the hidden one, whose parameters are none of the module's.
    """

    WIDTHS = (10, 5)

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(10, 8)
        self.__dict__["hidden"] = nn.Linear(8, 5)

    def _apply(self, fn, recurse=True):
        """Move the hidden layer too."""
        self.hidden._apply(fn)
        return super()._apply(fn, recurse)

    def forward(self, x: Tensor) -> Tensor:
        return self.hidden(torch.relu(self.first(x)))


class Pairs(nn.Sequential):
    """Two pairs of linear layers with a ReLU behind each pair: 16 numbers in and out."""

    WIDTHS = (16, 16)

    def __init__(self) -> None:
        pairs = [nn.Sequential(nn.Linear(16, 16), nn.Linear(16, 16)) for _ in range(2)]
        super().__init__(pairs[0], nn.ReLU(), pairs[1], nn.ReLU())

    @staticmethod
    def is_pair(module: nn.Module) -> bool:
        """Whether a module is one of the pairs, and not what holds them."""
        return type(module) is nn.Sequential


class SameSource(nn.Module):
    """Uses a plain tensor and a buffer of its own twice each."""

    WIDTHS = (3, 3)

    def __init__(self) -> None:
        super().__init__()
        self._param = torch.randn(3)
        self.register_buffer("_buf", torch.randn(3), persistent=False)

    def _apply(self, fn, recurse=True):
        """Move the plain tensor too."""
        self._param = fn(self._param)
        return super()._apply(fn, recurse)

    def forward(self, x: Tensor) -> Tensor:
        z = x + self._buf + self._buf
        z += self._param + self._param
        return z


class OwnsBuffer(nn.Module):
    """Has a buffer, and adds it."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("buffer", torch.randn(3), persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return x + self.buffer


class DifferentSources(nn.Module):
    """Has a buffer that its child has too, and changes it in place before both use it."""

    WIDTHS = (3, 3)

    def __init__(self) -> None:
        super().__init__()
        self.child = OwnsBuffer()
        self.register_buffer("buffer", self.child.buffer, persistent=False)
        self.weight = nn.Parameter(torch.randn(1))

    def _apply(self, fn, recurse=True):
        """Move both, and share the buffer again, which would be two where memory is another."""
        super()._apply(fn, recurse)
        self.buffer = self.child.buffer
        return self

    def forward(self, x: Tensor) -> Tensor:
        self.buffer.mul_(1.25)
        z = self.child(x + self.buffer)
        z += self.weight
        return z


class WithStaticMethod(nn.Module):
    """Adds its parameter by a static method, found on itself or on its class, and doubles in place."""

    WIDTHS = (3, 3)

    def __init__(self, on_self: bool) -> None:
        super().__init__()
        self.on_self = on_self
        self.weight = nn.Parameter(torch.randn(3))

    @staticmethod
    def added(x: Tensor, weight: Tensor) -> Tensor:
        return x + weight

    def forward(self, x: Tensor) -> Tensor:
        z = self.added(x, self.weight) if self.on_self else type(self).added(x, self.weight)
        z *= 2
        return z
