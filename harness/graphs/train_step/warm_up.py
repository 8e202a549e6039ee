"""The first step of an optimizer, eagerly, so that its state exists when a graph is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from harness.graphs.train_step.calls import StepCall
from harness.graphs.train_step.reduction import reducing


def is_needed(optimizer: Optimizer | None) -> bool:
    """Whether an optimizer has no state for some parameter: at first, or for a group that was added."""
    if optimizer is None:
        return False
    parameters = (each for group in optimizer.param_groups for each in group["params"] if each.requires_grad)
    return any(not optimizer.state.get(each) for each in parameters)


def run_eagerly(function: Callable[..., Any], call: StepCall, group_name: str) -> Any:
    """A real step, with summed gradients, that leaves and returns what a graph's would."""
    with reducing(call.module.parameters(), group_name):
        result = call.run(function, list(call.tensors.values()))
    for parameter in call.module.parameters():
        parameter.grad = None
    return tree_map_only(Tensor, Tensor.detach, result)
