"""Cases that fuzz ``planted_backends``, and some that have a fault of their own, for ``test_case``."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist
from hypothesis.strategies import SearchStrategy

from harness import RankError, Status, TestOutcome
from harness.errors import RankTestError
from harness.fuzzing import GLOO, Program, ProgramTestCase, fuzz, programs
from harness.fuzzing.program import OBJECTS
from suites.selftest.fuzzing.planted_backends import (
    AroundGloo,
    Dies,
    DropsAPart,
    GivesUp,
    Hangs,
    MixesUpRanks,
    ReducesTheFirst,
    ReducesTheMemory,
    ScattersTheFirst,
    SkipsAWait,
    TiresOfGroups,
)

OF_TENSORS = tuple(kind for kind in GLOO.kinds if kind not in OBJECTS)


def of_tensors(
    world_size: int,
    kinds: tuple[str, ...] = OF_TENSORS,
    managed: tuple[str, ...] = GLOO.managed,
    **options: Any,
) -> SearchStrategy[Program]:
    """Programs without objects, which are exchanged by collectives of tensors and would show their faults."""
    return programs(world_size, backend=replace(GLOO, kinds=kinds, managed=managed), **options)


def in_one_group(world_size: int, **options: Any) -> SearchStrategy[Program]:
    """Such programs in the group of all ranks, of which more meet a fault of one collective."""
    return of_tensors(world_size, groups=[tuple(range(world_size))], **options)


class Planted(ProgramTestCase):
    """A case on three ranks and the backend of class ``make``."""

    world_size = 3
    make: type[AroundGloo] = AroundGloo

    @classmethod
    def backend_str(cls) -> str:
        """The name under which the backend is registered."""
        return "planted"

    @classmethod
    def device_type(cls) -> str:
        """The device type of the tensors."""
        return "cpu"

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        dist.Backend.register_backend("planted", cls.make, devices=["cpu"])
        super()._init_pg(rank, world_size, rdvz_file)

    @fuzz(examples=200, strategy=of_tensors)
    def test_programs(self, program: Program) -> None:
        """Runs two hundred programs."""
        self.run_program(program)


class RightTest(Planted):
    """A case on a backend without a fault."""

    @fuzz(examples=20)
    def test_programs(self, program: Program) -> None:
        """Runs a few programs."""
        self.run_program(program)

    def test_plain(self) -> None:
        """A method without programs runs once, on the same ranks."""
        tensor = torch.tensor([self.rank + 1])
        dist.all_reduce(tensor)
        self.assertEqual(tensor.item(), 6)


class CountingTest(Planted):
    """A case that fails in the end with the number of its programs."""

    world_size = 2
    count = 0

    def _problem_with(self, program: Program, fn: Any) -> Any:
        self.count += 1
        return super()._problem_with(program, fn)

    def tearDown(self) -> None:
        """Fails in the parent with the number of programs that ran."""
        super().tearDown()
        raise AssertionError(f"program {self.count} of all")

    @fuzz(examples=7)
    def test_programs(self, program: Program) -> None:
        """Runs seven programs on the ranks."""
        self.run_program(program)


class UnknownGroupTest(Planted):
    """A case whose programs use a group that does not exist."""

    @classmethod
    def program_groups(cls, world_size: int) -> tuple[tuple[int, ...], ...]:
        """No groups beside the default one."""
        return ()

    @fuzz(examples=3, strategy=lambda size: programs(size, groups=[(0, 2)]))
    def test_programs(self, program: Program) -> None:
        """Runs programs on a group of ranks 0 and 2."""
        self.run_program(program)


class StallsOnceTest(Planted):
    """A case whose first program times out, as on a machine that stalls once."""

    world_size = 2
    stalled = False

    def _problem_with(self, program: Program, fn: Any) -> Any:
        if not self.stalled:
            self.stalled = True
            return RankError("stood still", TestOutcome(Status.TIMED_OUT, ()))
        return super()._problem_with(program, fn)

    @fuzz(examples=3)
    def test_programs(self, program: Program) -> None:
        """Runs three programs on the ranks."""
        self.run_program(program)


class DropsAPartTest(Planted):
    """A case that finds the fault of ``DropsAPart``."""

    make = DropsAPart


class KnownFaultTest(Planted):
    """A case that knows the fault of ``DropsAPart``."""

    make = DropsAPart
    known = 0

    def is_known(self, program: Program, problem: RankTestError) -> bool:
        """Whether the smallest program is one all-reduce."""
        self.known += len(program.steps) == 1 and "all_reduce" in str(program)
        return bool(self.known)

    def tearDown(self) -> None:
        """Fails in the parent unless several programs met the fault."""
        super().tearDown()
        assert self.known > 1, self.known

    @fuzz(examples=10)
    def test_programs(self, program: Program) -> None:
        """Runs programs of which some meet the fault."""
        self.run_program(program)


class MixesUpRanksTest(Planted):
    """A case that finds the fault of ``MixesUpRanks``."""

    make = MixesUpRanks

    @fuzz(examples=100, strategy=in_one_group)
    def test_programs(self, program: Program) -> None:
        """Runs a hundred programs in the one group that meets the fault; few of 200 in all groups did."""
        self.run_program(program)


class ReducesTheFirstTest(Planted):
    """A case that finds the fault of ``ReducesTheFirst``."""

    make = ReducesTheFirst

    @fuzz(examples=200, strategy=lambda size: of_tensors(size, managed=()))
    def test_programs(self, program: Program) -> None:
        """Runs two hundred programs without managed calls, which show the fault too."""
        self.run_program(program)


class ScattersTheFirstTest(Planted):
    """A case that finds the fault of ``ScattersTheFirst``."""

    make = ScattersTheFirst


class ReducesTheMemoryTest(Planted):
    """A case that finds the fault of ``ReducesTheMemory``."""

    make = ReducesTheMemory

    @fuzz(
        examples=200, strategy=lambda size: in_one_group(size, kinds=("reduce_scatter_tensor",), managed=())
    )
    def test_programs(self, program: Program) -> None:
        """Runs two hundred programs of that collective, of which few have such gaps."""
        self.run_program(program)


class ReversesObjectsTest(Planted):
    """A case on ranks whose ``scatter_object_list`` hands objects out from the last to the first."""

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        super()._init_pg(rank, world_size, rdvz_file)
        real = dist.scatter_object_list

        def reversed_list(outputs: Any, inputs: Any, *args: Any, **kwargs: Any) -> None:
            real(outputs, inputs and inputs[::-1], *args, **kwargs)

        dist.scatter_object_list = reversed_list

    @fuzz(examples=200)
    def test_programs(self, program: Program) -> None:
        """Runs two hundred programs, of objects too."""
        self.run_program(program)


class TurnsListsTest(Planted):
    """A case on ranks whose ``recv_object_list`` returns the list from its end to its beginning."""

    @classmethod
    def _init_pg(cls, rank: int, world_size: int, rdvz_file: str) -> None:
        super()._init_pg(rank, world_size, rdvz_file)
        real = dist.recv_object_list

        def turned(objects: list[Any], *args: Any, **kwargs: Any) -> Any:
            source = real(objects, *args, **kwargs)
            objects.reverse()
            return source

        dist.recv_object_list = turned

    @fuzz(examples=100)
    def test_programs(self, program: Program) -> None:
        """Runs a hundred programs, of objects too."""
        self.run_program(program)


class TiresOfGroupsTest(Planted):
    """A case that finds the fault of ``TiresOfGroups``."""

    make = TiresOfGroups

    @fuzz(examples=200, strategy=lambda size: of_tensors(size, ("all_reduce", "broadcast"), managed=()))
    def test_programs(self, program: Program) -> None:
        """Runs two hundred programs of what the fault is in, of which few use a group that they have made."""
        self.run_program(program)


class GivesUpTest(Planted):
    """A case that finds the fault of ``GivesUp``."""

    make = GivesUp

    @fuzz(examples=200, strategy=in_one_group)
    def test_programs(self, program: Program) -> None:
        """Runs two hundred programs, of which few have a rank that is missing."""
        self.run_program(program)


class SkipsAWaitTest(Planted):
    """A case that finds the fault of ``SkipsAWait``."""

    make = SkipsAWait


class HangsTest(Planted):
    """A case that finds the fault of ``Hangs``."""

    make = Hangs
    program_timeout_s = 5.0
    smaller_timeout_s = 1.0
    shrinking_s = 30.0


class DiesTest(Planted):
    """A case that finds the fault of ``Dies``."""

    make = Dies
