"""What random modules are trained by, with ranks and without: batches, losses, states and how they differ.

Scripts contain the text of this module below its first imports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.utils.checkpoint  # for the modules
from torch import nn

State = dict[str, torch.Tensor | None]


def model_of(source: str) -> Callable[[], nn.Module]:
    """The class ``Model`` that a source defines."""
    scope: dict[str, Any] = {"torch": torch, "nn": nn}
    exec(source, scope)
    found: Callable[[], nn.Module] = scope["Model"]
    return found


def made(model: Callable[[], nn.Module]) -> nn.Module:
    """A new module, with the same parameters each time."""
    torch.manual_seed(0)
    return model()


def batch(rank: int, step: int, number: int) -> torch.Tensor:
    """A rank's batch of three rows; about half of the batches have a negative sum."""
    order = (torch.arange(12) * 7 + rank * 5 + step * 3 + number * 11) % 13
    return ((order - 6) / 8).to(torch.float64).reshape(3, 4)


def backward(module: nn.Module, x: torch.Tensor, share: float = 1.0) -> None:
    """The backward of the loss of a batch."""
    h, _ = module(x)
    (h.square().mean() * share).backward()


def states(module: nn.Module) -> State:
    """Copies of a module's gradients, parameters and buffers."""
    found: State = {}
    for name, parameter in module.named_parameters():
        grad = parameter.grad
        found[f"gradient of {name}"] = None if grad is None else grad.detach().to_dense().clone()
        found[f"parameter {name}"] = parameter.detach().clone()
    found.update({f"buffer {name}": each.clone() for name, each in module.named_buffers()})
    return found


def differences(found: Sequence[State], expected: Sequence[State], tolerance: float = 1e-8) -> list[str]:
    """What differs in a rank's states after each step: lines that begin with the kind of difference."""
    if any(value is not None and value.dtype == torch.float32 for own in expected for value in own.values()):
        tolerance = 1e-3  # the gradients of all parameters before one of float32 have come through it
    return [
        f"{text}\nafter step {step}: {got}\nfor {right}"
        for step, (own, others) in enumerate(zip(found, expected, strict=False))
        for absolute in [noise(expected[: step + 1])]
        for name, got in own.items()
        for right in [others[name]]
        if (text := difference(name, got, right, tolerance, absolute))
    ]


# Of float64 too: what a step rounds the next ones multiply, by thousands where a training diverges.
_LEAST_NOISE = 1e-10


def noise(states: Sequence[State]) -> float:
    """What rounding leaves where gradients as large as the states' largest cancel, each in its precision.

    The gradient of a bias before a batch's norm is nothing else, and a training that diverges makes it large.
    """
    gradients = [each for state in states for name, each in state.items() if name.startswith("gradient")]
    kept = [each for each in gradients if each is not None and each.numel()]
    found = (max(1000 * torch.finfo(each.dtype).eps, _LEAST_NOISE) * float(each.abs().max()) for each in kept)
    return max(filter(math.isfinite, found), default=0.0)


def difference(
    name: str, got: torch.Tensor | None, right: torch.Tensor | None, tolerance: float, absolute: float = 0.0
) -> str:
    """What differs between two tensors, in a few words; the empty text where nothing does."""
    if got is None or right is None:
        is_right = got is right
        return "" if is_right else f"{name} is {'None' if got is None else 'there, but should be None'}"
    if got.dtype != right.dtype or got.shape != right.shape:
        return f"{name} has {got.dtype}, {tuple(got.shape)}, but {right.dtype}, {tuple(right.shape)} is right"
    # Training may diverge, in both.
    close = torch.allclose(got, right, rtol=tolerance, atol=max(tolerance, absolute), equal_nan=True)
    return "" if close else f"{name} differs"
