"""The handle that ``async_op=True`` returns: when it is done, what it holds, and that waiting waits.

The late member of each test (see ``base``) makes these sure: what depends on it cannot be done before it
comes, and must be done after ``wait``.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.c10d import reference
from suites.c10d.base import OnSubGroup, declares, gloo_only, instantiate_world_sizes
from suites.c10d.inputs import Case

CASE = Case()
#: How long to wait for what cannot happen: long enough to enter the wait, no result depends on more.
SHORT = timedelta(milliseconds=50)
#: More collectives at once than the backend has threads (2), on more groups' worth of sockets than one.
IN_FLIGHT = 24


@needs(Capability.ASYNCHRONOUS)
class WorkHandles:
    """Handles of collectives on the default group."""

    def start_all_reduce(self, held, group=None):
        """Start to sum ``held`` and return this rank's tensor and the handle."""
        tensor = self.on_device(CASE, held[self.group_rank])
        return tensor, dist.all_reduce(tensor, group=group or self.group, async_op=True)

    def starters(self, turn=0):
        """Return functions that start a collective in which everybody needs everybody, by name, each with
        what its output must be: a number from every member, another one in each turn."""
        places = torch.arange(float(len(self.members)), device=self.device)
        numbers = places + 1 + 100 * turn
        total, mine = numbers.sum().repeat(2), numbers[self.group_rank].repeat(2)
        outputs, whole = [torch.zeros_like(mine) for _ in self.everyone], torch.zeros_like(numbers)
        parts = list((mine[:1] + 10 * places).split(1))
        received = list(torch.zeros_like(numbers).split(1))
        parts_of_all = numbers + 10 * self.group_rank
        reduced, single = mine.clone(), torch.zeros_like(numbers)
        how = {"group": self.group, "async_op": True}
        starters = {
            "all_reduce": (lambda: dist.all_reduce(reduced, **how), [reduced], [total]),
            "all_gather": (
                lambda: dist.all_gather(outputs, mine, **how),
                outputs,
                [number.repeat(2) for number in numbers],
            ),
            "all_gather_into_tensor": (
                lambda: dist.all_gather_into_tensor(whole, mine[:1], **how),
                [whole],
                [numbers],
            ),
            "all_to_all": (lambda: dist.all_to_all(received, parts, **how), received, parts_of_all.split(1)),
            "all_to_all_single": (
                lambda: dist.all_to_all_single(single, torch.cat(parts), **how),
                [single],
                [parts_of_all],
            ),
            "barrier": (lambda: dist.barrier(**how), [], []),
        }
        return {name: each for name, each in starters.items() if name == "barrier" or declares(name)}

    def test_is_completed(self):
        # The last member starts when the others have looked; they cannot be done before.
        last = self.members[-1]
        for name, (start, tensors, expected) in self.starters().items():
            with self.subTest(collective=name):
                work = None
                if self.rank != last:
                    work = start()
                    self.assertIs(work.is_completed(), len(self.members) == 1)
                self.come_last(last, f"{name} looked", self.members)
                work = work or start()
                self.assertIs(work.wait(), True)
                self.assertIs(work.is_completed(), True)
                for tensor, right in zip(tensors, expected, strict=True):
                    self.same(tensor, right)

    def start_before_the_last(self, held):
        """Do the same, the last member when the others have started."""
        last, started = self.members[-1], None
        if self.rank != last:
            started = self.start_all_reduce(held)
        self.come_last(last, "started", self.members)
        return started or self.start_all_reduce(held)

    def test_wait_returns_with_the_result(self):
        held = [CASE.term("sum", member) for member in self.everyone]
        tensor, work = self.start_before_the_last(held)
        self.assertIs(work.wait(), True)
        self.check(CASE, tensor, reference.all_reduce(held, "sum")[self.group_rank])

    def test_wait_twice(self):
        held = [CASE.term("sum", member) for member in self.everyone]
        tensor, work = self.start_before_the_last(held)
        self.assertIs(work.wait(), True)
        self.assertIs(work.wait(), True)
        self.check(CASE, tensor, reference.all_reduce(held, "sum")[self.group_rank])

    @needs(Capability.TIMEOUTS)
    def test_wait_timeout(self):
        # The last member starts when the others have waited in vain; then their handles serve them yet.
        held = [CASE.term("sum", member) for member in self.everyone]
        last, started = self.members[-1], None
        if self.rank != last:
            started = self.start_all_reduce(held)
            with self.refused(RuntimeError, self.timed_out("Operation timed out!")):
                started[1].wait(SHORT)
        self.come_last(last, "waited in vain", self.members)
        tensor, work = started or self.start_all_reduce(held)
        self.assertIs(work.wait(), True)
        self.check(CASE, tensor, reference.all_reduce(held, "sum")[self.group_rank])

    def test_many_in_flight(self):
        def held_in(turn):
            return [CASE.term("sum", member, turn) for member in self.everyone]

        started = [self.start_all_reduce(held_in(turn)) for turn in range(IN_FLIGHT)]
        for turn, (tensor, work) in reversed(list(enumerate(started))):
            self.assertIs(work.wait(), True)
            self.check(CASE, tensor, reference.all_reduce(held_in(turn), "sum")[self.group_rank])

    def test_many_in_flight_of_each_kind(self):
        # Started turn by turn, and waited for from the last to the first.
        turns = [list(self.starters(turn).values()) for turn in range(IN_FLIGHT)]
        started = [(start(), tensors, right) for turn in turns for start, tensors, right in turn]
        for work, tensors, expected in reversed(started):
            self.assertIs(work.wait(), True)
            for tensor, right in zip(tensors, expected, strict=True):
                self.same(tensor, right)

    def test_barrier_implies_wait(self):
        # A barrier is passed only when all collectives that were started before it are done, on all ranks.
        # The last member starts its part when the others are about to enter the barrier.
        held = [CASE.term("sum", member) for member in self.everyone]
        last, started = self.members[-1], []
        if self.rank != last:
            started = [self.start_all_reduce(held) for _ in range(IN_FLIGHT)]
        self.come_last(last, "about to enter", self.members)
        started = started or [self.start_all_reduce(held) for _ in range(IN_FLIGHT)]
        dist.barrier(group=self.group)
        for tensor, work in started:
            self.check(CASE, tensor, reference.all_reduce(held, "sum")[self.group_rank])
            self.assertIs(work.wait(), True)

    @needs(Capability.FUTURES)
    def test_get_future(self):
        held = [CASE.label(member) for member in self.everyone]
        outputs = [CASE.blank(self.device) for _ in self.everyone]
        tensor = self.on_device(CASE, held[self.group_rank])
        future = dist.all_gather(outputs, tensor, group=self.group, async_op=True).get_future()
        self.check(CASE, future.wait(), held)
        self.assertIs(future.done(), True)
        self.check(CASE, outputs, held)

    @needs(Capability.FUTURES)
    def test_get_future_then(self):
        held = [CASE.term("sum", member) for member in self.everyone]
        _, work = self.start_all_reduce(held)
        doubled = work.get_future().then(lambda future: future.value()[0] * 2)
        self.check(CASE, doubled.wait(), 2 * reference.combine(held, "sum"))


class SubGroupWorkHandles(OnSubGroup, WorkHandles):
    """Handles of collectives on sub-groups."""


@gloo_only
class GlooWorkHandles:
    """What gloo's handles leave to be wished."""

    def start_reduce_scatter(self):
        """Return the output, the handle and what the output must be, of a reduce_scatter of a list."""
        parts = [[CASE.term("sum", member, part) for part in self.everyone] for member in self.everyone]
        mine = [self.on_device(CASE, part) for part in parts[self.rank]]
        output = CASE.blank(self.device)
        work = dist.reduce_scatter(output, mine, async_op=True)
        return output, work, reference.reduce_scatter(parts, "sum")

    def start_reduce_scatter_tensor(self):
        """Return the same of a reduce_scatter_tensor."""
        whole = Case(shape=(CASE.shape[0] * self.world_size, CASE.shape[1]))
        held = [whole.term("sum", member) for member in self.everyone]
        output, mine = CASE.blank(self.device), self.on_device(whole, held[self.rank])
        work = dist.reduce_scatter_tensor(output, mine, async_op=True)
        return output, work, reference.reduce_scatter_tensor(held, "sum")

    def test_reduce_scatter_is_never_completed(self):
        for start in (self.start_reduce_scatter, self.start_reduce_scatter_tensor):
            with self.subTest(start=start.__name__):
                output, work, expected = start()
                self.assertIs(work.wait(), True)
                self.check(CASE, output, expected[self.rank])
                self.assertIs(work.is_completed(), False)

    def test_reduce_scatter_has_no_future(self):
        for start in (self.start_reduce_scatter, self.start_reduce_scatter_tensor):
            with self.subTest(start=start.__name__):
                output, work, expected = start()
                with self.refused(RuntimeError, "Work::getFuture not implemented."):
                    work.get_future()
                self.assertIs(work.wait(), True)
                self.check(CASE, output, expected[self.rank])

    def test_reduce_scatter_tensor_is_done_by_wait(self):
        # It is an all-reduce of the whole; wait copies the output out of it, however long ago it was done.
        output, work, expected = self.start_reduce_scatter_tensor()
        self.check_group_works()
        self.same(output, CASE.blank(self.device))
        self.assertIs(work.wait(), True)
        self.check(CASE, output, expected[self.rank])

    @needs(Capability.POINT_TO_POINT)
    def test_point_to_point_has_no_future(self):
        output = CASE.blank(self.device)
        works = [
            dist.isend(self.on_device(CASE, CASE.label(self.rank)), (self.rank + 1) % self.world_size),
            dist.irecv(output, (self.rank - 1) % self.world_size),
        ]
        for work in works:
            with self.refused(RuntimeError, "Work::getFuture not implemented."):
                work.get_future()
            self.assertIs(work.wait(), True)
        self.check(CASE, output, CASE.label((self.rank - 1) % self.world_size))


@needs(Capability.ASYNCHRONOUS, Capability.SUB_GROUPS)
class GroupsInFlight:
    """Handles of collectives on two groups of the same ranks."""

    def test_order_between_groups_is_free(self):
        # Even ranks start on one group first, odd ranks on the other; only within a group the order counts.
        groups = [dist.new_group(list(self.members), backend=self.backend) for _ in range(2)]
        self.come_last(self.members[-1], "grouped", self.members)
        order = (0, 1) if self.rank % 2 == 0 else (1, 0)
        held = [[CASE.term("sum", member, turn) for member in self.everyone] for turn in (0, 1)]
        started = {turn: self.start_all_reduce(held[turn], groups[turn]) for turn in order}
        for turn, (tensor, work) in started.items():
            self.assertIs(work.wait(), True)
            self.check(CASE, tensor, reference.combine(held[turn], "sum"))

    start_all_reduce = WorkHandles.start_all_reduce


instantiate_world_sizes(globals(), WorkHandles, GlooWorkHandles, GroupsInFlight)
instantiate_world_sizes(globals(), SubGroupWorkHandles, sizes=(3, 4))


if __name__ == "__main__":
    run_tests()
