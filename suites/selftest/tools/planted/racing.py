"""A fuzzer with a planted race, for the tests of the hunt: whether one rank's flag is there in time."""

from __future__ import annotations

from collections.abc import Iterator

from harness.fuzzing.hunted import Hunted, Place
from suites.selftest.communication.chaos_cases import flag


class Racing(Hunted[tuple[int, ...]]):
    """Two ranks, of which one sets a flag and the other one reads it without having waited for it."""

    name = "racing"
    timeout_s = 30.0

    def drawn(self, seed: int) -> list[tuple[int, ...]]:
        """Two programs, which do the same: the hunt delays the ranks of one of them."""
        return [(0,), (1,)]

    def world_size(self, program: tuple[int, ...]) -> int:
        """Two ranks, one of which may come late."""
        return 2

    def run(self, program: tuple[int, ...], place: Place) -> None:
        """Fails on rank 0 where rank 1 comes late, and 0 is of the programs that look."""
        seen = flag(place.store, place.rank)
        assert seen or program == (0,), "the flag is not there"

    def script(self, program: tuple[int, ...]) -> str:
        """A script in which nobody is late."""
        return "pass\n"

    def simpler(self, program: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
        """Nothing is simpler."""
        return iter(())

    def from_json(self, value: list[int]) -> tuple[int, ...]:
        """From a list."""
        return tuple(value)
