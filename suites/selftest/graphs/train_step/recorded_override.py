"""``Recorded``: an override for tests that records the modules and graphs that it was called with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.fx import GraphModule

from harness.graphs.train_step import Override

Transform = Callable[[GraphModule, list[Tensor]], Any]


class Recorded(Override):
    """An override of two functions that records the modules and graphs that it was called with."""

    def __init__(
        self,
        replace: Callable[[Any], Any] = lambda module: module,
        transform: Transform = lambda gm, flat_state: gm,
    ) -> None:
        self.asked: list[str] = []
        self.graphs: list[GraphModule] = []
        self._replace, self._transform = replace, transform

    def replacement(self, fqn: str, orig_submodule: nn.Module) -> nn.Module:
        self.asked.append(fqn)
        found: nn.Module = self._replace(orig_submodule)
        return found

    def transform(self, gm: GraphModule, flat_state: list[Tensor]) -> GraphModule:
        self.graphs.append(gm)
        found: GraphModule = self._transform(gm, flat_state)
        return found


def relu_to_tanh(module: Any) -> Any:
    """Replaces a ReLU module by Tanh, and keeps others."""
    return nn.Tanh() if isinstance(module, nn.ReLU) else module
