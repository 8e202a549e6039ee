"""Runs DTensor programs on plain tensors: the reference, and what decides whether a program may be drawn."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import torch

from harness.fuzzing.dtensors import placing
from harness.fuzzing.dtensors.checks import loss_of
from harness.fuzzing.dtensors.operators import written_count
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement

Values = list[torch.Tensor]
#: How much the inputs of a second run differ, relatively: far more than rounding, far less than tolerances.
NUDGE = 1e-11
#: What that may change of a result.
ROBUST = 1e-7
#: The largest number that a value may have: of larger ones rounding shows.
LARGE = 1e6


def inputs_of(inputs: Sequence[Input], nudge: float = 0.0) -> Values:
    """New plain tensors for inputs, as leaves; with a ``nudge`` floating ones are off by about as much."""
    made = []
    for seed, each in enumerate(inputs):
        tensor = placing.numbers(each.shape, getattr(torch, each.dtype), seed)
        if nudge and tensor.is_floating_point():
            tensor = tensor + nudge * torch.cos(placing.numbers(each.shape, torch.float64, seed + 3))
        made.append(tensor.requires_grad_(each.grad))
    return made


def extend(values: list[Any], statements: Sequence[Statement], redistribute: Any) -> None:
    """Appends what each statement makes of ``values``, up to one that raises.

    ``redistribute`` is called with a value and a list of placements.
    """
    for statement in statements:
        if statement.placements:
            placements = placements_of(statement.placements)
            values.append(redistribute(values[statement.operands[0]], placements))
        else:
            scope = {f"v{number}": value for number, value in enumerate(values)}
            values.append(eval(statement.expression, {"torch": torch}, scope))


def placements_of(expressions: Sequence[str]) -> list[Any]:
    """The placements that expressions such as ``Shard(0)`` make."""
    from torch.distributed.tensor import Partial, Replicate, Shard

    scope = {"Shard": Shard, "Replicate": Replicate, "Partial": Partial}
    return [eval(each, scope) for each in expressions]


def outcome(program: DTensorProgram, nudge: float = 0.0) -> tuple[Values, list[torch.Tensor | None]]:
    """All values of a run on plain tensors, and the gradients of the inputs; raises what torch raises."""
    with quiet():
        inputs = inputs_of(program.inputs, nudge)
        values = list(inputs)
        extend(values, program.statements, _itself)
        if program.backward and (loss := loss_of(values)) is not None:
            loss.backward()
        return values, [each.grad for each in inputs]


def can_run_backward(program: DTensorProgram) -> bool:
    """Whether plain tensors can run a program's backward, and no gradient depends on rounding."""
    try:
        _, gradients = outcome(program)
        _, others = outcome(program, NUDGE)
    except RuntimeError:  # a write to what a backward needs
        return False
    kept = [each for each in gradients if each is not None]
    return all(map(is_moderate, kept)) and all(map(near, gradients, others))


class Twins:
    """The values of a program so far, and those of a twin whose inputs differ a little.

    Where the twins' results differ by more than a little, a comparison or a choice among equals depends on
    rounding.
    """

    def __init__(self, inputs: Sequence[Input]) -> None:
        self._inputs = inputs
        self._statements: list[Statement] = []
        self._restart()

    def _restart(self) -> None:
        self.values = inputs_of(self._inputs)
        self._others = inputs_of(self._inputs, NUDGE)
        # The storages of what is redistributed: plain tensors share them with the result, DTensors may not.
        self._read_only: set[int] = set()
        for statement in self._statements:
            self._step(statement)

    def accept(self, statement: Statement, most: int) -> bool:
        """Runs a statement, and keeps it if it makes a moderate tensor of at most ``most`` elements.

        One that writes to what was redistributed is not kept.
        """
        count = len(self.values)
        written = statement.operands[: written_count(statement.template)]
        if any(self._read_only & holding(self.values[operand]) for operand in written):
            return False
        if _hangs(statement, self.values):
            return False
        if self._succeeds(statement) and self.values[-1].numel() <= most:
            self._statements.append(statement)
            return True
        if statement.placements or "_(" in statement.template or "out=" in statement.template:
            self._restart()  # it may have written half of what it should
        else:
            del self.values[count:], self._others[count:]
        return False

    def _succeeds(self, statement: Statement) -> bool:
        try:
            with quiet():
                self._step(statement)
            value, other = self.values[-1], self._others[-1]
            # One of several views of what was written to is made, and refused when it is looked at.
            return isinstance(value, torch.Tensor) and is_moderate(value) and near(value, other)
        except (RuntimeError, IndexError, TypeError, ValueError):
            return False

    def _step(self, statement: Statement) -> None:
        for values in (self.values, self._others):
            extend(values, [statement], _itself)
        if statement.placements:
            self._read_only |= holding(self.values[-1])


def _itself(value: torch.Tensor, placements: Sequence[Any]) -> torch.Tensor:
    """The redistribution of a plain tensor; IndexError for shards of a dimension that it has not."""
    for placement in placements:
        if placement.is_shard():
            value.size(placement.dim)
    return value


def _hangs(statement: Statement, values: Values) -> bool:
    """Whether DTensor never comes to an end: reshaping a tensor of no elements loops without end (2.13)."""
    reshapes = any(word in statement.template for word in ("reshape", "view", "flatten"))
    return reshapes and not values[statement.operands[0]].numel()


def holding(tensor: torch.Tensor) -> set[int]:
    """The address of a tensor's storage, as a set; empty for a storage of no bytes."""
    address = tensor.untyped_storage().data_ptr()
    return {address} if address else set()


def is_moderate(tensor: torch.Tensor) -> bool:
    """Whether a tensor is real, and its numbers are finite and not large."""
    if tensor.is_complex() or not tensor.numel() or tensor.dtype == torch.bool:
        return not tensor.is_complex()
    return bool(torch.isfinite(tensor).all()) and float(tensor.detach().abs().max()) < LARGE


def near(one: torch.Tensor | None, other: torch.Tensor | None) -> bool:
    """Whether two results are the same but for what ``NUDGE`` may change."""
    if one is None or other is None:
        return one is other
    if one.dtype == torch.float32:
        return bool(torch.allclose(one, other, rtol=1e-4, atol=1e-4))
    return bool(torch.allclose(one.double(), other.double(), rtol=ROBUST, atol=ROBUST))


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """A region whose warnings are not shown: programs are odd on purpose."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
