"""Backends that wrap gloo and have one fault each, and the cases that fuzz them, for ``test_case``."""

from __future__ import annotations

import os
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from hypothesis.strategies import SearchStrategy

from harness import RankError, Status, TestOutcome
from harness.errors import RankTestError
from harness.fuzzing import GLOO, Program, ProgramTestCase, fuzz, programs
from harness.fuzzing.program import OBJECTS

#: What torch calls on a group, by the name that the backend has for it.
CALLS = {
    **{
        name: name
        for name in (
            *("allreduce", "broadcast", "reduce", "allgather", "gather", "scatter", "reduce_scatter"),
            *("alltoall", "alltoall_base", "_allgather_base", "_reduce_scatter_base", "barrier"),
            *("send", "recv", "allreduce_coalesced", "allgather_coalesced"),
        )
    },
    "all_gather_single": "_allgather_base",
    "reduce_scatter_single": "_reduce_scatter_base",
    "all_to_all_single": "alltoall_base",
}
#: The same of what Python can only ask a whole group for.
CALLS_OF_GROUPS = {
    "allgather_into_tensor_coalesced": "allgather_into_tensor_coalesced",
    "all_gather_single_coalesced": "allgather_into_tensor_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_tensor_coalesced",
    "reduce_scatter_single_coalesced": "reduce_scatter_tensor_coalesced",
}


class AroundGloo(dist.ProcessGroup):  # type: ignore[misc]  # mypy is told not to read torch
    """A process group that passes each call on to gloo."""

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(rank, size)
        self.gloo = dist.ProcessGroupGloo(store, rank, size, timeout)
        self.whole = dist.ProcessGroup(store, rank, size)
        self.whole._register_backend(torch.device("cpu"), dist.ProcessGroup.BackendType.GLOO, self.gloo)
        self.name = ""
        forwarded = {name: getattr(self.gloo, inner) for name, inner in CALLS.items()}
        forwarded |= {name: self.unseen(inner) for name, inner in CALLS_OF_GROUPS.items()}
        for name, call in forwarded.items():
            if name not in type(self).__dict__:
                setattr(self, name, call)

    def unseen(self, name: str) -> Any:
        """A method of the inner group, which nobody knows as a group: its calls are not recorded."""
        method = getattr(dist.ProcessGroup, name)
        return partial(getattr(method, "__wrapped__", method), self.whole)

    def getBackendName(self) -> str:
        """The backend's name, for which torch calls this method."""
        return "planted"

    def setGroupName(self, name: str) -> None:
        """Takes the name, which torch has this method keep."""
        self.name = name

    def getGroupName(self) -> str:
        """The name by which torch forgets a group that is destroyed."""
        return self.name


class DropsAPart(AroundGloo):
    """A backend whose all-reduce leaves out the last rank's tensor."""

    def allreduce(self, tensors: list[torch.Tensor], options: Any) -> Any:
        """Reduces with zeros in place of the last rank's tensor."""
        if self.rank() == self.size() - 1:
            for tensor in tensors:
                tensor.zero_()
        return self.gloo.allreduce(tensors, options)


class MixesUpRanks(AroundGloo):
    """A backend whose all_gather exchanges the first two ranks in groups of three or more ranks."""

    def allgather(self, outputs: list[list[torch.Tensor]], inputs: list[torch.Tensor], options: Any) -> Any:
        """Gathers into lists whose first two tensors are exchanged."""
        if self.size() > 2:
            outputs = [[parts[1], parts[0], *parts[2:]] for parts in outputs]
        return self.gloo.allgather(outputs, inputs, options)


class Unwaited(dist._Work):  # type: ignore[misc]  # as above
    """A work handle whose wait returns at once."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self.work = work

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Returns without waiting for the inner handle."""
        return True


class ReducesTheFirst(AroundGloo):
    """A backend whose coalesced all-reduce leaves out all tensors but the first."""

    def allreduce_coalesced(self, tensors: list[torch.Tensor], options: Any) -> Any:
        """Reduces one tensor."""
        return self.gloo.allreduce_coalesced(tensors[:1], options)


class ScattersTheFirst(AroundGloo):
    """A backend that leaves out all tensors but the first, of calls of ``reduce_scatter_tensor`` made one."""

    def reduce_scatter_tensor_coalesced(self, outputs: Any, inputs: Any, options: Any) -> Any:
        """Reduces and scatters one tensor."""
        return self.unseen("reduce_scatter_tensor_coalesced")(outputs[:1], inputs[:1], options)

    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced


class ReducesTheMemory(AroundGloo):
    """A backend whose ``reduce_scatter_tensor`` takes its input for as many elements that lie in a row."""

    def _reduce_scatter_base(self, output: torch.Tensor, given: torch.Tensor, options: Any) -> Any:
        """Reduces what lies in memory where the input begins."""
        beneath = given.as_strided((given.numel(),), (1,)).reshape(given.shape)
        return self.gloo._reduce_scatter_base(output, beneath, options)

    reduce_scatter_single = _reduce_scatter_base


class TiresOfGroups(AroundGloo):
    """A backend that reduces and sends zeros in groups that are made when the process has made others."""

    made = 0

    def __init__(self, store: Any, rank: int, size: int, timeout: timedelta) -> None:
        super().__init__(store, rank, size, timeout)
        type(self).made += 1
        if type(self).made > 3:  # of three ranks each is in as many groups from the beginning
            self.allreduce, self.broadcast = self.of_zeros("allreduce"), self.of_zeros("broadcast")

    def of_zeros(self, name: str) -> Any:
        """A collective whose tensors are set to zero before."""
        return lambda tensors, options: getattr(self.gloo, name)([t.zero_() for t in tensors], options)


class Impatient(dist._Work):  # type: ignore[misc]  # as above
    """A work handle whose wait returns where its timeout passes, as if the call were over."""

    def __init__(self, work: Any) -> None:
        super().__init__()
        self.work = work

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Waits for the inner handle for so long."""
        try:
            self.work.wait(timeout)
        except RuntimeError:
            if not timeout:
                raise
        return True


class GivesUp(AroundGloo):
    """A backend whose all_reduce returns handles that do not tell that a timeout has passed."""

    def allreduce(self, tensors: list[torch.Tensor], options: Any) -> Any:
        """Starts an all_reduce."""
        return Impatient(self.gloo.allreduce(tensors, options))


class SkipsAWait(AroundGloo):
    """A backend whose broadcasts return handles that do not wait."""

    def broadcast(self, tensors: list[torch.Tensor], options: Any) -> Any:
        """Starts a broadcast and returns a handle that does not wait for it."""
        return Unwaited(self.gloo.broadcast(tensors, options))


class Hangs(AroundGloo):
    """A backend on which a reduce_scatter of lists never ends on the last rank."""

    def reduce_scatter(self, outputs: Any, inputs: Any, options: Any) -> Any:
        """Makes the last rank wait for a message that nobody sends, instead of taking part."""
        if self.rank() == self.size() - 1:
            return self.gloo.recv([torch.zeros(1)], 0, 12345)
        return self.gloo.reduce_scatter(outputs, inputs, options)


class Dies(AroundGloo):
    """A backend on which the sender of a message exits."""

    def send(self, tensors: Any, target: int, tag: int = 0) -> Any:
        """Ends the process without a report."""
        os._exit(3)


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
