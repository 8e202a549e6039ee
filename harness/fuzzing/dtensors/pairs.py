"""Sweeps pairs of operators on DTensors: each operator on what each other one makes of each placement.

Where random programs seldom put an operator behind a value of just one kind, a sum that is not reduced yet or
a shard that is strided, this table does so for all of them. A seed is a slice of it.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

from harness.fuzzing.dtensors.draw import placed
from harness.fuzzing.dtensors.operators import ALL, operand_count
from harness.fuzzing.dtensors.program import DTensorProgram, Input, Statement
from harness.fuzzing.dtensors.shrink import runs_plain

#: What the operators are applied to: the input itself, and what one statement makes of it. Each kind of
#: placement that DTensor gives a result is that of some of them, where the input is sharded.
MAKERS = (
    "",
    "{0}.clone()",
    "{0} > 0.3",
    "({0} > 0.3).any(0)",
    "({0} > 0.3).all()",
    "torch.count_nonzero({0})",
    "{0}.sum()",
    "{0}.sum(0)",
    "{0}.mean()",
    "{0}.mean(0)",
    "{0}.prod(0)",
    "{0}.max()",
    "{0}.amax(0)",
    "{0}.amin(-1)",
    "{0}.max(-1)[0]",
    "{0}.norm()",
    "torch.linalg.vector_norm({0}, dim=0)",
    "torch.linalg.vector_norm({0}, ord=float('inf'))",
    "torch._foreach_norm([{0}, {0}])[0]",
    "torch.logsumexp({0}, -1)",
    "torch.topk({0}, 2)[0]",
    "{0} @ {0}.t()",
    "{0}.flatten()",
    "{0}.t()",
    "{0}[1:]",
)
#: How the input is placed, on the first dimension of the mesh.
PLACEMENTS = (
    *("Shard(0)", "Shard(1)", "Replicate()"),
    *("Partial()", "Partial('avg')", "Partial('max')", "Partial('min')"),
)
#: The meshes, a sweep each in turns.
MESHES = ((2,), (3,), (2, 2))
#: All pairs with a placement.
PAIRS = len(ALL) * len(MAKERS) * len(PLACEMENTS)
#: The seeds in a row that sweep over them, each with a hundred at most. A prime, so that each has all sorts.
SLICES = 211
#: The shapes of the input, and of a further operand that is none.
SHAPES = ((3, 4), (3, 4), (4, 4), (1, 4), (0, 4))
OTHER_SHAPES = ((4,), (3,), (3, 4), (4, 4), ())
#: How often what is not in the table is drawn until plain tensors can run the program.
TRIES = 12


def pairs(seed: int) -> Iterator[DTensorProgram]:
    """The programs of slice ``seed % SLICES``, but for those that plain tensors cannot run.

    The seed draws what is not in the table: shapes, types, the other operands and how they are placed,
    whether the value is redistributed before, and whether there is a backward.
    """
    choice = random.Random(seed)
    mesh = MESHES[seed // SLICES % len(MESHES)]
    for number in range(seed % SLICES, PAIRS, SLICES):
        tries = (_drawn(number, mesh, choice) for _ in range(TRIES))
        yield from itertools.islice(filter(runs_plain, tries), 1)


def _drawn(number: int, mesh: tuple[int, ...], choice: random.Random) -> DTensorProgram:
    """A program of the pair of a number, which plain tensors may not be able to run."""
    number, operator = divmod(number, len(ALL))
    placement, maker = divmod(number, len(MAKERS))
    inputs = [_first(PLACEMENTS[placement], len(mesh), choice)]
    if operand_count(ALL[operator]) > 1:
        dtype = choice.choice(("float64", "float64", "int64"))
        inputs.append(placed(choice, choice.choice(OTHER_SHAPES), dtype, len(mesh), dtype == "float64"))
    statements = _statements(MAKERS[maker], ALL[operator], len(inputs), len(mesh), choice)
    backward = choice.random() < 0.6 and any(each.grad for each in inputs)
    return DTensorProgram(mesh, tuple(inputs), statements, backward)


def _first(placement: str, dimensions: int, choice: random.Random) -> Input:
    """The input that is ``placement`` on the first mesh dimension. An average of integers is none."""
    dtype = "float64" if "avg" in placement else choice.choice(("float64", "float64", "int64"))
    drawn = placed(choice, choice.choice(SHAPES), dtype, dimensions, dtype == "float64")
    return replace(drawn, placements=(placement, *drawn.placements[1:]))


def _statements(
    maker: str, operator: str, inputs: int, dimensions: int, choice: random.Random
) -> tuple[Statement, ...]:
    """What makes a value of the first of ``inputs``, perhaps its redistribution, and the operator on it."""
    made, statements = 0, []
    if maker:
        statements.append(Statement(maker, (0,)))
    if choice.random() < 0.2:
        kinds = ("Shard(0)", "Replicate()")
        where = tuple(choice.choice(kinds) for _ in range(dimensions))
        statements.append(Statement("", (0 if not statements else inputs,), where))
    if statements:
        made = inputs + len(statements) - 1
    operands = [choice.choice((made, inputs - 1)) for _ in range(operand_count(operator))]
    operands[choice.randrange(len(operands))] = made
    return (*statements, Statement(operator, tuple(operands)))
