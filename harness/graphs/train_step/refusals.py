"""Turns errors of torch's tracers into a UsageError that says in one line why a step cannot be a graph."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch
from torch._subclasses.fake_tensor import (
    DynamicOutputShapeException,
    UnsupportedFakeTensorException,
    UnsupportedOperatorException,
)

from harness.errors import UsageError
from harness.graphs.tracing_errors import DECISIONS, is_of_captured_tensor

_TORCH = Path(torch.__file__).parent
_OPTIMIZERS = _TORCH / "optim"
_HERE = Path(__file__).parent

_UNSUPPORTED = (DynamicOutputShapeException, UnsupportedFakeTensorException, UnsupportedOperatorException)


def made_by_optimizer(error: BaseException) -> bool:
    """Whether an error was raised in, or in a call from, one of torch's optimizers."""
    return any(_OPTIMIZERS in Path(f.filename).parents for f in traceback.extract_tb(error.__traceback__))


@contextmanager
def in_words() -> Iterator[None]:
    """A context that turns the tracer's errors into a UsageError; errors of the step's code pass through."""
    try:
        yield
    except Exception as error:
        told = _told(error)
        if told is None:
            raise
        raise told from error


def _told(error: Exception) -> UsageError | None:
    place = _place(error)
    if isinstance(error, DECISIONS):
        return UsageError(
            f"the step needs the value of a tensor in Python at {place}, so it cannot be one graph: use "
            "tensor operations (torch.where), or another optimizer"
        )
    if is_of_captured_tensor(error):
        return UsageError(
            f"the step uses a tensor at {place} that is neither an argument nor a parameter or buffer of "
            "the module: pass it, or register it as a buffer"
        )
    if isinstance(error, _UNSUPPORTED):
        return UsageError(f"the step cannot be traced at {place}: {type(error).__name__}: {_line(error)}")
    return None


def _line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "")


def _place(error: Exception) -> str:
    """The innermost line of the user's code, and that of torch's optimizer if one was running."""
    frames = traceback.extract_tb(error.__traceback__)
    users = [f for f in frames if not {_TORCH, _HERE} & set(Path(f.filename).parents)]
    optimizers = [f for f in frames if _OPTIMIZERS in Path(f.filename).parents]
    named = [f"{Path(f.filename).name}:{f.lineno}" for f in (*users[-1:], *optimizers[-1:])]
    return ", in ".join(named) or "an unknown place"
