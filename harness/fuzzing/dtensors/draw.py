"""Draws DTensor programs: a function of a seed, whose every value is a program that plain tensors can run."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import replace

from harness.errors import UsageError
from harness.fuzzing.dtensors.operators import (
    FOREACH,
    IN_PLACE,
    MATRICES,
    POINTWISE,
    REDUCTIONS,
    SHAPES,
    operand_count,
)
from harness.fuzzing.dtensors.plain import Twins, can_run_backward
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement

#: The most statements of a program.
MAX_STATEMENTS = 8
#: The most elements of a value, so that a program takes milliseconds.
MAX_ELEMENTS = 2000
#: How many draws of a statement may fail, for one that does not.
TRIES = 12

#: The kinds of statements and how often each is drawn.
KINDS: Mapping[tuple[str, ...], int] = {
    POINTWISE: 5,
    REDUCTIONS: 5,
    MATRICES: 4,
    SHAPES: 7,
    IN_PLACE: 3,
    FOREACH: 1,
}
#: How often a redistribution is drawn, by the same measure.
REDISTRIBUTIONS = 4


def drawn(seed: int, world_size: int, *, in_place: bool = True, partial: bool = True) -> DTensorProgram:
    """The program of a seed for ``world_size`` ranks.

    ``in_place``: whether statements may write to values. ``partial``: whether inputs may be ``Partial``.
    UsageError for fewer than one rank.
    """
    if world_size < 1:
        raise UsageError(f"programs for {world_size} ranks: give at least one")
    choice = random.Random(seed)
    mesh = choice.choice(meshes(world_size))
    inputs = _inputs(choice, len(mesh), partial)
    return _Drawing(choice, mesh, inputs, in_place).program()


def meshes(world_size: int) -> list[tuple[int, ...]]:
    """The shapes of meshes of one to three dimensions, those of one dimension repeated; 1 at most once."""
    found: list[tuple[int, ...]] = [(world_size,)] * 3
    for first in range(1, world_size + 1):
        if world_size % first == 0:
            rest = world_size // first
            found.append((first, rest))
            found += [(first, second, rest // second) for second in range(2, rest) if rest % second == 0]
    return [mesh for mesh in found if mesh.count(1) <= 1]


def _inputs(choice: random.Random, dimensions: int, partial: bool) -> tuple[Input, ...]:
    a, b, c = (choice.choice((0, 1, 2, 3, 4, 4, 5, 6, 8)) for _ in range(3))
    shapes = [(a, b), (a, b), (b, c), (a,), (b,), (a, b, c), (1, b), (b, b), ()]
    floats = [
        placed(choice, choice.choice(shapes), "float64", dimensions, partial)
        for _ in range(choice.randint(1, 3))
    ]
    if choice.random() < 0.2:
        floats.append(placed(choice, choice.choice([(a,), (a, b)]), "int64", dimensions, False))
    return tuple(floats)


def placed(
    choice: random.Random, shape: tuple[int, ...], dtype: str, dimensions: int, partial: bool
) -> Input:
    """An input on a mesh of so many dimensions; every other one of float64 has a gradient."""
    op = choice.choice(("", "", "'avg'", "'max'", "'min'"))
    kinds = [f"Shard({dim})" for dim in range(len(shape))] * 2 + ["Replicate()"]
    kinds += [f"Partial({op})"] if partial else []
    placements = tuple(choice.choice(kinds) for _ in range(dimensions))
    return Input(shape, placements, dtype, dtype == "float64" and choice.random() < 0.5)


class _Drawing:
    """The state of a draw: the statements so far and the values that they have on plain tensors."""

    def __init__(
        self, choice: random.Random, mesh: tuple[int, ...], inputs: tuple[Input, ...], in_place: bool
    ) -> None:
        self._choice, self._mesh, self._inputs = choice, mesh, inputs
        self._statements: list[Statement] = []
        self._twins = Twins(inputs)
        self._kinds = [kind for kind in KINDS if in_place or kind != IN_PLACE]

    def program(self) -> DTensorProgram:
        """Draws statements until there are as many as wanted, or none fits any more."""
        wanted = self._choice.randint(1, MAX_STATEMENTS)
        backward = self._choice.random() < 0.7
        for _ in range(wanted * TRIES):
            if len(self._statements) == wanted:
                break
            self._try(self._statement())
        program = DTensorProgram(self._mesh, self._inputs, tuple(self._statements), backward)
        has_gradients = backward and any(each.grad for each in self._inputs)
        return program if has_gradients and can_run_backward(program) else replace(program, backward=False)

    def _statement(self) -> Statement:
        weights = [KINDS[kind] for kind in self._kinds]
        if self._choice.random() * (sum(weights) + REDISTRIBUTIONS) < REDISTRIBUTIONS:
            return self._redistribution()
        template = self._choice.choice(self._choice.choices(self._kinds, weights)[0])
        return Statement(template, tuple(self._operand() for _ in range(operand_count(template))))

    def _operand(self) -> int:
        """The number of a value, more often a late one."""
        count = len(self._twins.values)
        return max(self._choice.randrange(count), self._choice.randrange(count))

    def _redistribution(self) -> Statement:
        operand = self._operand()
        kinds = [f"Shard({dim})" for dim in range(self._twins.values[operand].dim())] * 2 + ["Replicate()"]
        return Statement("", (operand,), tuple(self._choice.choice(kinds) for _ in self._mesh))

    def _try(self, statement: Statement) -> None:
        """Keeps the statement if plain tensors can run it, and nothing that it makes depends on rounding."""
        if self._twins.accept(statement, MAX_ELEMENTS):
            self._statements.append(statement)
