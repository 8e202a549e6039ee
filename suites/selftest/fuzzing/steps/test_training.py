"""Tests a traced train step beside eager on ranks: right steps pass, each planted fault is seen."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any
from unittest import mock

import torch

from harness import MultiProcContinuousTest
from harness.fuzzing.hunted import Rejected
from harness.fuzzing.steps import training
from harness.fuzzing.steps.program import Call, StepProgram
from harness.fuzzing.training import model_of
from harness.graphs import train_step

CALLS = (Call(), Call(batches=2, rows=2, rate=0.125), Call(trains=False))
PROGRAM = StepProgram(
    2,
    ("norm", "linear", "unused"),
    "Adam",
    (("amsgrad", True),),
    (("bucket_mb", 25), ("warm_up", True)),
    CALLS,
)


def checked(rank: int, program: StepProgram = PROGRAM) -> None:
    training.check(program, model_of(program.source), rank)


@contextlib.contextmanager
def planted(change: Callable[[Any, Any, Any], Any]) -> Any:
    """A tracer whose step ``change(step, module, optimizer, *batches)`` makes of the right one."""
    compile = train_step.compile

    def wrong(**options: Any) -> Any:
        def decorate(function: Any) -> Any:
            step = compile(**options)(function)
            return lambda *arguments: change(step, *arguments)

        return decorate

    with mock.patch.object(train_step, "compile", wrong):
        yield


def doubled(step: Any, module: Any, optimizer: Any, *batches: Any) -> Any:
    """Returns twice what the step returns."""
    return step(module, optimizer, *batches) * 2


def moved(step: Any, module: Any, optimizer: Any, *batches: Any) -> Any:
    """Moves a parameter."""
    found = step(module, optimizer, *batches)
    with torch.no_grad():
        next(module.parameters()).add_(1e-3)
    return found


def forgetful(step: Any, module: Any, optimizer: Any, *batches: Any) -> Any:
    """Does not count batches."""
    before = module.norm0.num_batches_tracked.clone()
    found = step(module, optimizer, *batches)
    module.norm0.num_batches_tracked.copy_(before)
    return found


class TrainingTest(MultiProcContinuousTest):
    """Two ranks, with gloo."""

    world_size = 2

    @classmethod
    def backend_str(cls) -> str:
        """The backend of the default group."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The device of all tensors."""
        return "cpu"

    def test_right_step(self) -> None:
        checked(self.rank)

    def test_what_eager_refuses_is_rejected(self) -> None:
        program = StepProgram(2, ("complex",), "SGD", (("fused", True),), PROGRAM.compiled, CALLS)
        with self.assertRaisesRegex(Rejected, "eager refuses it"):
            checked(self.rank, program)

    def test_planted_faults(self) -> None:
        for change, what in (
            (doubled, "what the step returns differs"),
            (moved, "parameter first.weight differs"),
            (forgetful, "buffer norm0.num_batches_tracked differs"),
        ):
            with (
                self.subTest(what=what),
                planted(change),
                self.assertRaisesRegex(AssertionError, what),
            ):
                checked(self.rank)

    def test_gradients_that_are_not_summed(self) -> None:
        with (
            mock.patch("harness.graphs.train_step.reduction.summed", lambda gradient, group: gradient * 1),
            self.assertRaisesRegex(AssertionError, "differs"),
        ):
            checked(self.rank)
