"""Runs an optimizer's first step eagerly, so that its state exists when the graph is traced."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor
from torch.optim import Optimizer
from torch.utils._pytree import tree_map_only

from harness.graphs.train_step.call_arguments import StepCall
from harness.graphs.train_step.reduction import reducing


def is_needed(optimizer: Optimizer | None) -> bool:
    """Whether an optimizer lacks state for a parameter, as before its first step or in an added group."""
    if optimizer is None:
        return False
    parameters = (each for group in optimizer.param_groups for each in group["params"] if each.requires_grad)
    return any(not optimizer.state.get(each) for each in parameters)


def run_eagerly(function: Callable[..., Any], call: StepCall, group_name: str) -> Any:
    """Runs a step eagerly with summed gradients.

    As after a graph's run, no parameter has a gradient and the returned tensors are detached.
    """
    with reducing(call.module.parameters(), group_name):
        result = call.run(function, list(call.tensors.values()))
    for parameter in call.module.parameters():
        parameter.grad = None
    return tree_map_only(Tensor, Tensor.detach, result)
