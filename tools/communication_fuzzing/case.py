"""``FuzzCase``: a random program, and what one rank does otherwise in it; a function of its name."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from harness.fuzzing.draw import drawn_from, programs
from harness.fuzzing.mutation import Mutation, mutated
from harness.fuzzing.prediction import Prediction, predict
from harness.fuzzing.program import Program

WORLD_SIZES = (2, 3, 4)
# How many programs are drawn from one seed, and run by one process.
BATCH = 25


@dataclass(frozen=True, slots=True)
class FuzzCase:
    """One case: ``name`` is the seed of its batch and its number there, "4711/3"."""

    name: str
    program: Program
    mutation: Mutation | None = None

    @property
    def prediction(self) -> Prediction:
        """What must come of it."""
        return Prediction.RIGHT if self.mutation is None else predict(self.program, self.mutation)

    def __str__(self) -> str:
        said = "as it is" if self.mutation is None else self.mutation.text(self.program)
        return f"{self.program}, {said}"


def drawn(seed: int, *, mutate: bool) -> Iterator[FuzzCase]:
    """Yields the cases of a seed, at most ``BATCH``: fewer where a program has nothing to mutate."""
    size = WORLD_SIZES[seed % len(WORLD_SIZES)]
    for number, program in enumerate(drawn_from(programs(size), BATCH, seed)):
        name = f"{seed}/{number}"
        if not mutate:
            yield FuzzCase(name, program)
            continue
        mutation = mutated(program, random.Random(name))
        if mutation is not None:
            yield FuzzCase(name, program, mutation)
