"""How cases are made of programs: a class for each rank mode and world size, a test for each program."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from harness import DistributedTestBase, MultiProcContinuousTest, MultiThreadedTestCase
from suites.selftest.communication.programs.program import Program

# The collectives of a kept group before a program.
BEFORE = 3


def _meet(path: str, rank: int, world_size: int) -> None:
    """Returns when all ranks have come here, by files, of which nothing is recorded.

    A rank that still makes its group may be ended by what others do in theirs, before it has called anything.
    """
    Path(f"{path}.made.{rank}").touch()
    while not all(Path(f"{path}.made.{each}").exists() for each in range(world_size)):
        time.sleep(0.001)


class FreshRanks(DistributedTestBase):
    """Runs programs on ranks that make the default group for each."""

    def play(self, program: Program) -> None:
        """Makes the default group and runs the program."""
        self.create_pg("cpu")
        _meet(self.file_name, self.rank, self.world_size)
        program.body(self.rank, self.world_size)


class PooledRanks(MultiProcContinuousTest):
    """Runs programs on ranks that keep their default group."""

    @classmethod
    def backend_str(cls) -> str:
        """The backend of the group."""
        return "gloo"

    @classmethod
    def device_type(cls) -> str:
        """The device of the group."""
        return "cpu"

    def play(self, program: Program) -> None:
        """Runs the program."""
        program.body(self.rank, self.world_size)

    def test_before(self) -> None:
        """Uses the group, so that the program that comes next finds it used."""
        for _ in range(BEFORE):
            dist.all_reduce(torch.ones(2))


class RanksOnThreads(MultiThreadedTestCase):
    """Runs programs on threads."""

    def setUp(self) -> None:
        """Starts the threads."""
        super().setUp()
        self._spawn_threads()

    def play(self, program: Program) -> None:
        """Runs the program."""
        program.body(self.rank, self.world_size)


def cases_of(
    module: str, mode: str, base: type[Any], programs: Mapping[str, Program]
) -> dict[str, type[Any]]:
    """Makes a case for each world size, with a test ``test_<name>`` for each program of that mode and size.

    They are returned by name. Ranks look for a case by its name in ``module``.
    """
    wanted = [program for program in programs.values() if mode in program.modes]
    made = {}
    for size in sorted({program.world_size for program in wanted}):
        name = f"{base.__name__}{size}"
        tests = {f"test_{each.name}": _test_of(each) for each in wanted if each.world_size == size}
        made[name] = type(name, (base,), {"__module__": module, "world_size": size, **tests})
    return made


def _test_of(program: Program) -> Callable[[Any], None]:
    def test(self: Any) -> None:
        self.play(program)

    test.__name__ = f"test_{program.name}"
    test.__doc__ = program.body.__doc__
    return test
