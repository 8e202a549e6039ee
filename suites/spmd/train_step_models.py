"""Modules and optimizers that the train-step tests train, and operators that tracers know nothing of."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

_LIBRARY = torch.library.Library("dummy", "DEF")  # kept for as long as the process
_LIBRARY.define("ddm(Tensor x) -> Tensor")
_LIBRARY.define("ddm_backward(Tensor x) -> Tensor")
_LIBRARY.impl("ddm", lambda x: x, "CompositeExplicitAutograd")
_LIBRARY.impl("ddm_backward", lambda x: x, "CompositeExplicitAutograd")

#: Two identities, forward and backward.
DDM = (torch.ops.dummy.ddm.default, torch.ops.dummy.ddm_backward.default)


class _Ddm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return torch.ops.dummy.ddm(x)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        return torch.ops.dummy.ddm_backward(gradient)


class DummyDDM(nn.Module):
    """Applies the two operators."""

    def forward(self, x: Tensor) -> Tensor:
        return _Ddm.apply(x)


class DataDependentModule(nn.Module):
    """Stands for what cannot be traced."""

    def forward(self, x: Tensor) -> Tensor:
        raise RuntimeError("not to be called")


class Doubling(nn.Module):
    """Twice its input, and for its gradient twice the output's."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * x


class DummyModel(nn.Module):
    """Two layers with something between them; takes matrices only."""

    def __init__(self, between: type[nn.Module]) -> None:
        super().__init__()
        self.l1 = nn.Linear(10, 10)
        self.ddm = between()
        self.l2 = nn.Linear(10, 10)
        self.relu = nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        assert x.dim() == 2
        return self.relu(self.l2(self.ddm(self.l1(x))))


class ModuleWithBuffer(nn.Module):
    """A layer and a buffer that it makes a leaf of autograd, which is to get no all-reduce."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(10, 10)
        self.register_buffer("dummy_buffer", torch.ones(10, 10))

    def forward(self, x: Tensor) -> Tensor:
        self.dummy_buffer.requires_grad = True
        return torch.matmul(self.fc(x), self.dummy_buffer)


class AddingOptimizer(Optimizer):
    """Adds each gradient to its parameter; finds that buffers are no parameters."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__(module.parameters(), {})

    def step(self, closure: None = None) -> None:
        parameters = self.param_groups[0]["params"]
        assert len(parameters) == 2
        with torch.no_grad():
            for parameter in parameters:
                parameter += parameter.grad
