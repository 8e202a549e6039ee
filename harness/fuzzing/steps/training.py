"""Trains a module by a traced step in a rank, and in eager in one process for all ranks, and compares.

Both give the state after each call: parameters, buffers, the optimizer's state and what the step returned.
The reference runs each rank's batches through one module with that rank's buffers, whose gradients add up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import torch
from torch import nn
from torch.optim import Optimizer

from harness.fuzzing.hunted import Rejected
from harness.fuzzing.steps.program import Call, StepProgram
from harness.fuzzing.training import State, batch, differences, made, states
from harness.graphs import train_step

Model = Callable[[], nn.Module]
#: Optimizers that branch on a step's number: traced, they compute it in float32.
IN_FLOAT32 = ("ASGD", "NAdam", "RAdam")


def _optimizer(program: StepProgram, module: nn.Module) -> Optimizer:
    found: Optimizer = getattr(torch.optim, program.optimizer)(
        module.parameters(), lr=program.calls[0].rate, **dict(program.options)
    )
    return found


def _prepare(module: nn.Module, optimizer: Optimizer, call: Call) -> None:
    module.train(call.trains)
    for group in optimizer.param_groups:
        group["lr"] = call.rate


def _batches(rank: int, number: int, call: Call) -> list[torch.Tensor]:
    return [batch(rank, number, each)[: call.rows] for each in range(call.batches)]


def _backward(module: nn.Module, batches: Sequence[torch.Tensor]) -> torch.Tensor:
    """The backwards of the losses of some batches, and the sum of the losses."""
    total = torch.zeros((), dtype=torch.float64)
    for x in batches:
        h, _ = module(x)
        loss = h.square().mean()
        loss.backward()
        total = total + loss.detach()
    return total


def _step(module: nn.Module, optimizer: Optimizer, *batches: torch.Tensor) -> torch.Tensor:
    """The step that is traced."""
    total = _backward(module, batches)
    optimizer.step()
    return total


def _all_states(module: nn.Module, optimizer: Optimizer, loss: torch.Tensor) -> State:
    found: State = {"what the step returns": loss.detach().clone(), **states(module)}
    for name, parameter in module.named_parameters():
        for key, value in sorted(optimizer.state.get(parameter, {}).items()):
            if isinstance(value, torch.Tensor):
                found[f"optimizer's {key} of {name}"] = value.detach().clone()
    return found


def traced(program: StepProgram, model: Model, rank: int) -> Iterator[State]:
    """Yields the state of this rank after each call of the traced step."""
    module = made(model)
    optimizer = _optimizer(program, module)
    step = train_step.compile(**dict(program.compiled))(_step)
    for number, call in enumerate(program.calls):
        _prepare(module, optimizer, call)
        loss = step(module, optimizer, *_batches(rank, number, call))
        yield _all_states(module, optimizer, loss)


def in_eager(program: StepProgram, model: Model, rank: int) -> Iterator[State]:
    """Yields the states of a rank after each step, where one process computes the gradients of all."""
    module = made(model)
    optimizer = _optimizer(program, module)
    own = [{name: each.clone() for name, each in module.named_buffers()} for _ in range(program.world_size)]
    for number, call in enumerate(program.calls):
        _prepare(module, optimizer, call)
        losses = []
        for each in range(program.world_size):
            module.load_state_dict(own[each], strict=False)
            losses.append(_backward(module, _batches(each, number, call)))
            own[each] = {name: buffer.clone() for name, buffer in module.named_buffers()}
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        found = _all_states(module, optimizer, losses[rank])
        yield {**found, **{f"buffer {name}": buffer for name, buffer in own[rank].items()}}


def check(program: StepProgram, model: Model, rank: int) -> None:
    """Trains in both ways in a rank; AssertionError where they differ.

    Raises Rejected for what eager refuses, UsageError for what the tracer refuses.
    """
    try:
        expected = list(in_eager(program, model, rank))
    except (RuntimeError, ValueError) as error:
        raise Rejected(f"eager refuses it: {error}") from error
    found = list(traced(program, model, rank))
    tolerance = 1e-4 if program.optimizer in IN_FLOAT32 else 1e-8
    wrong = differences(found, expected, tolerance)
    assert not wrong, wrong[0]
