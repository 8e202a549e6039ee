"""A fuzzer with a planted bug, for the tests of the hunt: sums of numbers, of which 13 is in none."""

from __future__ import annotations

import random
from collections.abc import Iterator

from harness.fuzzing.hunted import Hunted, Place, Rejected


class OddSums(Hunted[tuple[int, ...]]):
    """Numbers, none of which may be 13; a number above 40 says nothing, and 7 ends the process."""

    name = "odd sums"
    timeout_s = 30.0

    def drawn(self, seed: int) -> list[tuple[int, ...]]:
        """Three programs: right, wrong, and one that says nothing."""
        return [(1, 2), (seed, 13, 2), (50,)]

    def script(self, program: tuple[int, ...]) -> str:
        """The check, and the end of the process."""
        return f"import os\n7 in {program} and os._exit(3)\nassert 13 not in {program}, 'sum 13'\n"

    def simpler(self, program: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """A number less."""
        yield from (program[:index] + program[index + 1 :] for index in range(len(program)))

    def changed(self, program: tuple[int, ...], choice: random.Random) -> tuple[int, ...]:
        """Another last number, from which nothing is missing."""
        return (*program[:-1], choice.randrange(20, 30))

    def run(self, program: tuple[int, ...], place: Place) -> None:
        """The script, but for what says nothing."""
        if max(program) > 40:
            raise Rejected("a large number")
        super().run(program, place)

    def from_json(self, value: list[int]) -> tuple[int, ...]:
        """From a list."""
        return tuple(value)
