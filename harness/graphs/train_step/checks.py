"""Checks that a module and an optimizer can be traced in a train step; the errors say what to change."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from harness.errors import UsageError

# The most parameter names that a message lists.
SHOWN = 5


def check_module(module: nn.Module) -> None:
    """Raises UsageError if a module cannot be traced in a train step.

    Refused are modules that contain DDP or have no parameters, parameters with gradients or hooks, and
    parameters and buffers of a tensor subclass.
    """
    for name, part in module.named_modules():
        if isinstance(part, DistributedDataParallel):
            raise UsageError(
                f"module {name or type(part).__name__} is DistributedDataParallel, which sums gradients "
                "itself: give the module inside it"
            )
    parameters = dict(module.named_parameters())
    if not parameters:
        raise UsageError(
            f"the module ({type(module).__qualname__}) has no parameters: nothing can be trained"
        )
    for name, tensor in [*parameters.items(), *module.named_buffers()]:
        if type(tensor) not in (Tensor, nn.Parameter, nn.Buffer):
            raise UsageError(
                f"{name} is a {type(tensor).__name__}: a train step is traced on plain tensors only"
            )
    _refuse((n for n, p in parameters.items() if p.grad is not None), "a gradient", "zero_grad()")
    _refuse((n for n, p in parameters.items() if _has_hooks(p)), "hooks", "remove them")


def _has_hooks(parameter: Tensor) -> bool:
    hooks = (parameter._backward_hooks, getattr(parameter, "_post_accumulate_grad_hooks", None))
    return any(hooks)


def _refuse(names: Iterable[str], what: str, remedy: str) -> None:
    found = list(names)
    if not found:
        return
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    raise UsageError(
        f"{', '.join(found[:SHOWN])}{more}: a parameter with {what} when the step is called, of which its "
        f"graph would know nothing: {remedy} first"
    )


def check_optimizer(module: nn.Module, optimizer: Optimizer | None) -> None:
    """Raises UsageError if the optimizer holds parameters that are not the module's."""
    if optimizer is None:
        return
    own = set(map(id, module.parameters()))
    for index, group in enumerate(optimizer.param_groups):
        foreign = sum(id(parameter) not in own for parameter in group["params"])
        if foreign:
            raise UsageError(
                f"group {index} of the optimizer has {foreign} parameters that are not the module's: make it "
                "of the module's parameters, after replacing modules"
            )
