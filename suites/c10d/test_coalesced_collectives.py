"""The coalesced collectives: several tensors of one dtype, of any shapes, in one call."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed.distributed_c10d import _coalescing_manager, _world

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.c10d import reference
from suites.c10d.base import OnSubGroup, gloo_only, instantiate_world_sizes
from suites.c10d.inputs import DTYPES_OF_OP, EVERYTHING, Case

SHAPES = ((4, 5), (7,), (0, 3), (2, 3, 4), ())
#: For what cuts or joins along dimension 0.
ROW_SHAPES = ((4, 5), (7,), (2, 3, 4))


@needs(Capability.COALESCED_TENSORS)
class CoalescedCollectives:
    """Coalesced collectives on the default group."""

    def held(self, cases, op="sum"):
        """Return ``held[case][member]``: terms of a reduction, shifted by the case."""
        return [[case.term(op, member, turn) for member in self.everyone] for turn, case in enumerate(cases)]

    def mine(self, cases, held):
        """Return this rank's tensors."""
        mine = [by_rank[self.group_rank] for by_rank in held]
        return [self.on_device(case, values) for case, values in zip(cases, mine, strict=True)]

    def check_reduced(self, cases, tensors, held, op):
        for case, tensor, by_rank in zip(cases, tensors, held, strict=True):
            self.check(case, tensor, reference.all_reduce(by_rank, op)[self.group_rank], rounded=True)

    def check_all_reduce_coalesced(self, op):
        for dtype in self.declared(DTYPES_OF_OP[op], "all_reduce_coalesced", op):
            cell = self.cell("all_reduce_coalesced", dtype, reduction=op)
            with self.subTest(dtype=str(dtype)), cell:
                cases = [Case(dtype, shape) for shape in SHAPES]
                held = self.held(cases, op)
                tensors = self.mine(cases, held)
                reduce_op = getattr(dist.ReduceOp, op.upper())
                self.assertIsNone(dist.all_reduce_coalesced(tensors, reduce_op, self.group))
                self.check_reduced(cases, tensors, held, op)

    def test_all_reduce_coalesced_sum(self):
        self.check_all_reduce_coalesced("sum")

    def test_all_reduce_coalesced_avg(self):
        self.check_all_reduce_coalesced("avg")

    def test_all_reduce_coalesced_product(self):
        self.check_all_reduce_coalesced("product")

    def test_all_reduce_coalesced_min(self):
        self.check_all_reduce_coalesced("min")

    def test_all_reduce_coalesced_max(self):
        self.check_all_reduce_coalesced("max")

    def test_all_reduce_coalesced_bitwise(self):
        for op in ("band", "bor", "bxor"):
            self.check_all_reduce_coalesced(op)

    @needs(Capability.ASYNCHRONOUS)
    def test_all_reduce_coalesced_async(self):
        # The handle is a future of the tensors, other than that of every other collective.
        cases = [Case(shape=shape) for shape in SHAPES]
        held = self.held(cases)
        tensors = self.mine(cases, held)
        future = dist.all_reduce_coalesced(tensors, group=self.group, async_op=True)
        self.check_reduced(cases, future.wait(), held, "sum")
        self.check_reduced(cases, tensors, held, "sum")

    def check_all_gather_coalesced(self, cases, **how):
        """Gather and return what the call returned."""
        labels = [
            [case.label(member, turn % 4) for member in self.everyone] for turn, case in enumerate(cases)
        ]
        outputs = [[case.blank(self.device) for case in cases] for _ in self.everyone]
        returned = dist.all_gather_coalesced(outputs, self.mine(cases, labels), self.group, **how)
        if returned is not None:
            returned.wait()
        for turn, case in enumerate(cases):
            gathered = [tensors[turn] for tensors in outputs]
            self.check(case, gathered, reference.all_gather(labels[turn])[self.group_rank])
        return returned

    def test_all_gather_coalesced(self):
        for dtype in self.declared(EVERYTHING, "all_gather_coalesced"):
            with self.subTest(dtype=str(dtype)), self.cell("all_gather_coalesced", dtype):
                cases = [Case(dtype, shape) for shape in ROW_SHAPES]
                self.assertIsNone(self.check_all_gather_coalesced(cases))

    def test_all_gather_coalesced_with_empty(self):
        self.check_all_gather_coalesced([Case(shape=shape) for shape in SHAPES])

    @needs(Capability.ASYNCHRONOUS)
    def test_all_gather_coalesced_async(self):
        returned = self.check_all_gather_coalesced([Case(shape=shape) for shape in ROW_SHAPES], async_op=True)
        self.assertIsInstance(returned, torch._C.Future)

    def process_group(self):
        """Return the group as the object whose methods have no function in ``torch.distributed``."""
        return self.group or dist.group.WORLD

    def test_allgather_into_tensor_coalesced(self):
        cases = [Case(shape=shape) for shape in ROW_SHAPES]
        held = self.held(cases)
        outputs = [case.blank(self.device, rows=case.shape[0] * len(self.members)) for case in cases]
        self.process_group().allgather_into_tensor_coalesced(outputs, self.mine(cases, held)).wait()
        for case, output, by_rank in zip(cases, outputs, held, strict=True):
            self.check(case, output, reference.all_gather_into_tensor(by_rank)[self.group_rank])

    def test_reduce_scatter_tensor_coalesced(self):
        cases = [Case(shape=shape) for shape in ROW_SHAPES]
        wholes = [Case(shape=(case.shape[0] * len(self.members), *case.shape[1:])) for case in cases]
        held = self.held(wholes)
        outputs = [case.blank(self.device) for case in cases]
        self.process_group().reduce_scatter_tensor_coalesced(outputs, self.mine(wholes, held)).wait()
        for case, output, by_rank in zip(cases, outputs, held, strict=True):
            self.check(case, output, reference.reduce_scatter_tensor(by_rank, "sum")[self.group_rank])


class SubGroupCoalescedCollectives(OnSubGroup, CoalescedCollectives):
    """Coalesced collectives on sub-groups."""


@needs(Capability.COALESCED_TENSORS)
class CoalescingManager:
    """``_coalescing_manager``, which collects calls; gloo has it where torch makes one coalesced call."""

    held, mine, check_reduced = (
        CoalescedCollectives.held,
        CoalescedCollectives.mine,
        CoalescedCollectives.check_reduced,
    )

    def prepare(self):
        self.cases = [Case(shape=shape) for shape in ROW_SHAPES]
        self.terms = self.held(self.cases)
        self.tensors = self.mine(self.cases, self.terms)

    def test_coalescing_manager(self):
        with _coalescing_manager():
            for tensor in self.tensors:
                dist.all_reduce(tensor)
            self.check(self.cases[0], self.tensors[0], self.terms[0][self.rank])
        self.check_reduced(self.cases, self.tensors, self.terms, "sum")

    def test_coalescing_manager_async(self):
        with _coalescing_manager(async_ops=True) as manager:
            for tensor in self.tensors:
                dist.all_reduce(tensor)
        manager.wait()
        self.check_reduced(self.cases, self.tensors, self.terms, "sum")

    def test_coalescing_manager_of_nothing(self):
        with _coalescing_manager():
            pass
        self.check_group_works()

    @gloo_only
    def test_coalescing_manager_with_a_device(self):
        message = "Backend gloo does not implement startCoalescing"
        with self.refused(RuntimeError, message), _coalescing_manager(device=self.device):
            dist.all_reduce(self.tensors[0])
        # torch 2.13 goes on collecting for this group, and its collectives do nothing until this is undone.
        _world.pg_coalesce_state.pop(dist.group.WORLD, None)
        self.check_group_works()


class CoalescedBroadcasts:
    """What DDP starts with: many small tensors of several dtypes from one rank, packed into buffers."""

    #: Bytes of a buffer: a few of the tensors here, so that there are many buffers.
    BUFFER = 256

    def test_broadcast_coalesced_cpu(self):
        dtypes = (torch.float32, torch.float64, torch.int64)
        cases = [Case(dtypes[turn % len(dtypes)], (7,)) for turn in range(30)]
        for root in reversed(self.members):
            tensors = [
                self.on_device(case, case.label(self.rank, turn % 4)) for turn, case in enumerate(cases)
            ]
            dist._broadcast_coalesced(dist.group.WORLD, tensors, self.BUFFER, root)
            for turn, (case, tensor) in enumerate(zip(cases, tensors, strict=True)):
                self.check(case, tensor, case.label(root, turn % 4))


@gloo_only
class CoalescedRefusals:
    """What the coalesced collectives refuse before anything is sent."""

    def test_mixed_dtypes(self):
        single, double = torch.ones(2), torch.ones(2, dtype=torch.float64)
        with self.refused(ValueError, "Invalid usage of tensors with different dtypes"):
            dist.all_reduce_coalesced([single, double])
        with self.refused(ValueError, "Invalid usage of tensors with different dtypes"):
            dist.all_gather_coalesced([[single, double] for _ in self.everyone], [single, double])
        with self.refused(
            RuntimeError, "ProcessGroupGloo::allgather_coalesced: invalid tensor type at index 0"
        ):
            dist.all_gather_coalesced([[double] for _ in self.everyone], [single])
        self.check_group_works()

    def test_no_tensors(self):
        for name, call in {
            "allreduce_coalesced_": lambda: dist.all_reduce_coalesced([]),
            "allgather_coalesced_": lambda: dist.all_gather_coalesced([[] for _ in self.everyone], []),
        }.items():
            with self.refused(
                NotImplementedError, "There were no tensor arguments to this function", op=name
            ):
                call()
        self.check_group_works()

    def test_all_reduce_coalesced_complex_unsupported(self):
        for op in ("PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
            message = f"all_reduce does not support RedOpType.{op} on complex tensors"
            with self.refused(ValueError, message, op=op):
                dist.all_reduce_coalesced([torch.ones(2, dtype=torch.complex64)], getattr(dist.ReduceOp, op))
        self.check_group_works()

    def test_all_gather_coalesced_output_lists(self):
        with self.refused(RuntimeError, "output lists should be equal to world size"):
            dist.all_gather_coalesced([[torch.ones(2)]] * (self.world_size + 1), [torch.ones(2)])
        self.check_group_works()


instantiate_world_sizes(globals(), CoalescedCollectives, CoalescedBroadcasts, CoalescingManager)
instantiate_world_sizes(globals(), SubGroupCoalescedCollectives, sizes=(3, 4))
instantiate_world_sizes(globals(), CoalescedRefusals, sizes=(2, 3))


if __name__ == "__main__":
    run_tests()
