"""``DTensorPrograms`` and ``DTensorPairPrograms``: random and tabled DTensor programs as fuzzers."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from typing import Any

from harness.fuzzing.dtensors.draw import drawn
from harness.fuzzing.dtensors.execute import failure
from harness.fuzzing.dtensors.pairs import pairs
from harness.fuzzing.dtensors.plain import outcome
from harness.fuzzing.dtensors.program import DTensorProgram, from_json, to_json
from harness.fuzzing.dtensors.ranks import OneRank
from harness.fuzzing.dtensors.shrink import simpler
from harness.fuzzing.dtensors.source import source_of
from harness.fuzzing.hunted import Hunted, Place

#: How many ranks programs have. Those of one seed have the same number, so that their ranks are kept.
WORLD_SIZES = (2, 3, 4, 4, 6)


class DTensorPrograms(Hunted[DTensorProgram]):
    """Programs of operators on DTensors, against plain tensors."""

    name = "dtensor"
    timeout_s = 30.0

    def __init__(self) -> None:
        self._ranks: OneRank | None = None

    def drawn(self, seed: int) -> Iterator[DTensorProgram]:
        """Programs without end for a number of ranks that the seed decides."""
        choice = random.Random(seed)
        world_size = choice.choice(WORLD_SIZES)
        return (drawn(choice.getrandbits(48), world_size) for _ in itertools.count())

    def world_size(self, program: DTensorProgram) -> int:
        """The ranks of the mesh."""
        return program.world_size

    def run(self, program: DTensorProgram, place: Place) -> None:
        """Runs a program in one rank; what DTensor says not to support is rejected."""
        if self._ranks is None:
            self._ranks = OneRank(place.rank)
        error = failure(program, self._ranks)
        if error is not None:
            raise error

    def script(self, program: DTensorProgram) -> str:
        """The program as a script in plain torch."""
        return source_of(program)

    def simpler(self, program: DTensorProgram) -> Iterator[DTensorProgram]:
        """Programs with a statement less, on a smaller mesh, or with plainer inputs."""
        return simpler(program)

    def structure(self, program: DTensorProgram) -> str:
        """The kinds of placements, the operators in their order, and whether there is a backward.

        Shards are called uneven where the size of some value is no multiple of the sizes of the mesh, or of
        the number of its ranks.
        """
        names = [each.template or "redistribute" for each in program.statements]
        return "; ".join([_placed(program), *names, *(["backward"] if program.backward else [])])

    def to_json(self, program: DTensorProgram) -> dict[str, Any]:
        """A program as values of JSON."""
        return to_json(program)

    def from_json(self, value: Any) -> DTensorProgram:
        """The program that ``to_json`` wrote."""
        return from_json(value)


class DTensorPairPrograms(DTensorPrograms):
    """A sweep over pairs of operators, many of which random programs have once in hours."""

    name = "dtensor-pairs"
    variant_of = DTensorPrograms.name

    def drawn(self, seed: int) -> Iterator[DTensorProgram]:
        """A slice of the table of pairs; so many seeds in a row as it has slices are all of it."""
        return pairs(seed)


def _placed(program: DTensorProgram) -> str:
    """The kinds of placements that a program names, each once: ``Replicate, uneven Shard``."""
    placed = [each for one in program.inputs for each in one.placements]
    placed += [each for one in program.statements for each in one.placements]
    kinds = {each.replace("()", "(sum)").replace("'", "") for each in placed if each.startswith("Partial")}
    kinds |= {each.partition("(")[0] for each in placed if not each.startswith("Partial")}
    if "Shard" in kinds and _is_uneven(program):
        kinds = kinds - {"Shard"} | {"uneven Shard"}
    return ", ".join(sorted(kinds))


def _is_uneven(program: DTensorProgram) -> bool:
    values, _ = outcome(program)
    counts = {
        *program.mesh,
        math.prod(program.mesh),
    }  # all, where two dimensions of the mesh cut the same one
    return any(size % parts for value in values for size in value.shape for parts in counts)
