"""``DTensorProgram``: a mesh, tensors placed on it and statements over them, as a value and as source."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from harness.errors import UsageError


@dataclass(frozen=True, slots=True)
class Input:
    """A tensor of the program: ``placements`` are expressions such as ``Shard(0)``, one a mesh dimension."""

    shape: tuple[int, ...]
    placements: tuple[str, ...]
    dtype: str = "float64"
    grad: bool = False


@dataclass(frozen=True, slots=True)
class Statement:
    """An operator's expression and its operands: numbers of values, of which the inputs are the first.

    With ``placements`` it is a redistribution to them and ``template`` is empty.
    """

    template: str
    operands: tuple[int, ...]
    placements: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Raises UsageError for a statement that is both an operator and a redistribution, or neither."""
        if bool(self.template) == bool(self.placements):
            raise UsageError("a statement has a template or placements")

    @property
    def expression(self) -> str:
        """The statement's right side."""
        template = self.template or f"redistribute({{0}}, [{', '.join(self.placements)}])"
        return template.format(*(f"v{operand}" for operand in self.operands))


@dataclass(frozen=True, slots=True)
class DTensorProgram:
    """Statements over inputs on a mesh. ``backward``: gradients are compared too."""

    mesh: tuple[int, ...]
    inputs: tuple[Input, ...]
    statements: tuple[Statement, ...]
    backward: bool = False

    def __post_init__(self) -> None:
        """Raises UsageError for placements that are not one a mesh dimension, and unknown operands."""
        placed = [each.placements for each in self.inputs]
        placed += [each.placements for each in self.statements if each.placements]
        if any(len(placements) != len(self.mesh) for placements in placed):
            raise UsageError(f"a mesh of {len(self.mesh)} dimensions takes as many placements")
        for number, statement in enumerate(self.statements, len(self.inputs)):
            if any(operand >= number for operand in statement.operands):
                raise UsageError(f"v{number} uses values that are not there yet")

    @property
    def world_size(self) -> int:
        """How many ranks the mesh has."""
        return math.prod(self.mesh)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all values, the inputs first."""
        return tuple(f"v{number}" for number in range(len(self.inputs) + len(self.statements)))

    @property
    def source(self) -> str:
        """The function ``program``, of the inputs, which returns all values; plain tensors do as well."""
        return "\n".join(("def program(" + ", ".join(self.names[: len(self.inputs)]) + "):", *self._body()))

    def _body(self) -> Iterator[str]:
        for number, statement in enumerate(self.statements, len(self.inputs)):
            yield f"    v{number} = {statement.expression}"
        yield f"    return [{', '.join(self.names)}]"

    def __str__(self) -> str:
        """The inputs and statements, a line each."""
        lines = [f"on a mesh of {self.mesh}{' with backward' if self.backward else ''}:"]
        lines += [
            f"  v{n} = {each.dtype}{each.shape} {', '.join(each.placements)}{' grad' if each.grad else ''}"
            for n, each in enumerate(self.inputs)
        ]
        return "\n".join([*lines, *(f"  {line.strip()}" for line in self._body())])


def to_json(program: DTensorProgram) -> dict[str, Any]:
    """A program as values of JSON."""
    return asdict(program)


def from_json(data: dict[str, Any]) -> DTensorProgram:
    """The program that ``to_json`` wrote."""
    inputs = tuple(
        Input(tuple(each["shape"]), tuple(each["placements"]), each["dtype"], each["grad"])
        for each in data["inputs"]
    )
    statements = tuple(
        Statement(each["template"], tuple(each["operands"]), tuple(each["placements"]))
        for each in data["statements"]
    )
    return DTensorProgram(tuple(data["mesh"]), inputs, statements, data["backward"])
