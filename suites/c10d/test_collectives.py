"""The collectives on dense tensors: what every rank holds after each of them.

Each body runs at 2, 3 and 4 ranks, and in three ways: on the default group, by handle (``async_op=True``),
and on several sub-groups at once. On the default group it goes through every dtype, shape and layout that
gloo takes; the other two ways go through a few. The expectation is ``reference``'s, never another
collective's. What gloo refuses is in ``test_collective_errors``, views with gaps in
``test_collective_layouts``, coalesced calls in ``test_coalesced_collectives``.
"""

from __future__ import annotations

import sys
import unittest
from dataclasses import replace
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs, require
from suites.c10d import reference
from suites.c10d.base import (
    Asynchronously,
    OnSubGroup,
    declares,
    instantiate_world_sizes,
    needs_all_to_all,
)
from suites.c10d.inputs import DTYPES_OF_OP, EVERYTHING, REALS, Case, dtype_cases, every_case, few_cases

#: What there is to reduce by, beyond the default.
BEYOND_SUM = tuple(op for op in DTYPES_OF_OP if op != "sum")
#: One row, for a body where the members' tensors have different numbers of them.
ROW_SHAPE = (1, 3)
#: More than any buffer of the transport holds (1.2 MB), and not to be shared out evenly.
LARGE = Case(shape=(3, 100003))


def op_of(name: str) -> dist.ReduceOp:
    """Return the operation that ``reference`` calls ``name``."""
    return getattr(dist.ReduceOp, name.upper())


class Checks:
    """How one call of each collective is checked, on any group and by any way to call."""

    cases = staticmethod(every_case)

    def each(self, check, dtypes, *, scalars=True):
        """Run ``check(case, root)`` for every case, as a sub-test; the root moves on from case to case."""
        for turn, case in enumerate(self.cases(*dtypes)):
            if scalars or case.shape:
                root = turn % len(self.members)
                with self.subTest(case=str(case), root=root), self.cell_of(check, case.dtype):
                    check(case, root)

    def cell_of(self, check, dtype):
        """Return the cell of a call of ``check``, a method or what ``partial`` made of one."""
        given = getattr(check, "args", ())
        method = getattr(check, "func", check).__name__.removeprefix("check_")
        named = [each.__name__ for each in given if callable(each)]
        reductions = [each for each in given if each in DTYPES_OF_OP]
        operation = named[0] if named else "all_to_all_single" if method == "equal_split" else method
        return self.cell(operation, dtype, **({"reduction": reductions[0]} if reductions else {}))

    def each_declared(self, check, operation, op):
        """Run ``check(op, case, root)`` for every case of the dtypes that are declared for the reduction."""
        self.each(partial(check, op), self.declared(DTYPES_OF_OP[op], operation, op))

    def each_op(self, check, operation):
        """Run ``check(op, case, root)`` for every declared reduction but SUM and two of its dtypes."""
        require(operation=operation)
        for op in BEYOND_SUM:
            names = self.target.dtypes(operation, op)
            dtypes = [d for d in DTYPES_OF_OP[op] if str(d).removeprefix("torch.") in names]
            for dtype in (dtypes[0], dtypes[-1]) if dtypes else ():
                with self.subTest(op=op, dtype=str(dtype)), self.cell(operation, dtype, reduction=op):
                    check(op, Case(dtype), 0)

    # One member's data goes to all. The late member's goes first, see ``base``.

    def check_broadcast(self, case, root):
        src = len(self.members) - 1 - root
        held = [case.label(member) for member in self.everyone]
        tensor = self.on_device(case, held[self.group_rank])
        self.call(dist.broadcast, tensor, self.members[src])
        self.check(case, tensor, reference.broadcast(held, src)[self.group_rank])

    def check_scatter(self, case, root):
        src = len(self.members) - 1 - root
        parts = [case.label(src, part) for part in self.everyone]
        sent = [self.on_device(case, part) for part in parts] if self.group_rank == src else None
        output = case.blank(self.device)
        self.call(dist.scatter, output, sent, self.members[src])
        self.check(case, output, reference.scatter(parts)[self.group_rank])

    # All members' data goes to one, or to all.

    def check_gather(self, case, dst):
        held = [case.label(member) for member in self.everyone]
        tensor = self.on_device(case, held[self.group_rank])
        outputs = [case.blank(self.device) for _ in self.everyone]
        self.call(dist.gather, tensor, outputs if self.group_rank == dst else None, self.members[dst])
        self.check(case, tensor, held[self.group_rank])
        if self.group_rank == dst:
            self.check(case, outputs, reference.gather(held, dst)[dst])

    def check_all_gather(self, case, _root):
        held = [case.label(member) for member in self.everyone]
        outputs = [case.blank(self.device) for _ in self.everyone]
        self.call(dist.all_gather, outputs, self.on_device(case, held[self.group_rank]))
        self.check(case, outputs, reference.all_gather(held)[self.group_rank])

    def check_all_gather_into_tensor(self, collective, case, _root):
        held = [case.label(member) for member in self.everyone]
        output = case.blank(self.device, rows=case.shape[0] * len(held))
        self.call(collective, output, self.on_device(case, held[self.group_rank]))
        self.check(case, output, reference.all_gather_into_tensor(held)[self.group_rank])

    # All members' data is reduced, for all, for one, or part by part.

    def check_all_reduce(self, op, case, _root):
        held = [case.term(op, member) for member in self.everyone]
        tensor = self.on_device(case, held[self.group_rank])
        self.call(dist.all_reduce, tensor, op_of(op))
        self.check(case, tensor, reference.all_reduce(held, op)[self.group_rank], rounded=True)

    def check_reduce(self, op, case, dst):
        # The other members' tensors are scratch space: gloo leaves partial results there.
        held = [case.term(op, member) for member in self.everyone]
        tensor = self.on_device(case, held[self.group_rank])
        self.call(dist.reduce, tensor, self.members[dst], op_of(op))
        if self.group_rank == dst:
            self.check(case, tensor, reference.reduce(held, dst, op)[dst], rounded=True)

    def check_reduce_scatter(self, op, case, _root):
        parts = [[case.term(op, member, part) for part in self.everyone] for member in self.everyone]
        mine = [self.on_device(case, part) for part in parts[self.group_rank]]
        output = case.blank(self.device)
        self.call(dist.reduce_scatter, output, mine, op_of(op))
        self.check(case, output, reference.reduce_scatter(parts, op)[self.group_rank], rounded=True)
        self.check(case, mine, parts[self.group_rank])

    def check_reduce_scatter_tensor(self, collective, op, case, _root):
        whole = replace(case, shape=(case.shape[0] * len(self.members), *case.shape[1:]))
        held = [whole.term(op, member) for member in self.everyone]
        output = case.blank(self.device)
        self.call(collective, output, self.on_device(whole, held[self.group_rank]), op_of(op))
        self.check(case, output, reference.reduce_scatter_tensor(held, op)[self.group_rank], rounded=True)

    # Every member has a part for every member.

    def check_all_to_all(self, case, _root):
        parts = [[case.label(member, part) for part in self.everyone] for member in self.everyone]
        mine = [self.on_device(case, part) for part in parts[self.group_rank]]
        outputs = [case.blank(self.device) for _ in self.everyone]
        self.call(dist.all_to_all, outputs, mine)
        self.check(case, outputs, reference.all_to_all(parts)[self.group_rank])

    def check_all_to_all_single(self, case, splits, *, say_splits):
        """Let ``splits[i][j]`` rows go from member i to j; say so, or let the collective cut evenly."""
        wholes = [replace(case, shape=(sum(rows), *case.shape[1:])) for rows in splits]
        held = [whole.label(member) for member, whole in enumerate(wholes)]
        received = [rows[self.group_rank] for rows in splits]
        output = case.blank(self.device, rows=sum(received))
        said = (received, splits[self.group_rank]) if say_splits else ()
        self.call(dist.all_to_all_single, output, self.on_device(case, held[self.group_rank]), *said)
        self.check(case, output, reference.all_to_all_single(held, splits)[self.group_rank])

    def check_equal_split(self, case, _root):
        splits = [[case.shape[0] for _ in self.everyone] for _ in self.everyone]
        if not case.transposed:  # what it says to those is in test_collective_layouts
            self.check_all_to_all_single(case, splits, say_splits=False)


class Collectives(Checks):
    """Every dense collective on the default group, synchronously, over all dtypes, shapes and layouts."""

    def test_broadcast(self):
        self.each(self.check_broadcast, self.declared(EVERYTHING, "broadcast"))

    def test_scatter(self):
        self.each(self.check_scatter, self.declared(EVERYTHING, "scatter"))

    def test_gather(self):
        self.each(self.check_gather, self.declared(REALS, "gather"))

    def test_all_gather(self):
        self.each(self.check_all_gather, self.declared(EVERYTHING, "all_gather"))

    def test_all_gather_into_tensor(self):
        check = partial(self.check_all_gather_into_tensor, dist.all_gather_into_tensor)
        self.each(check, self.declared(EVERYTHING, "all_gather_into_tensor"), scalars=False)

    @unittest.skipUnless(hasattr(dist, "all_gather_single"), "all_gather_single is new in torch 2.13")
    def test_all_gather_single(self):
        check = partial(self.check_all_gather_into_tensor, dist.all_gather_single)
        self.each(check, self.declared(EVERYTHING, "all_gather_into_tensor"), scalars=False)

    def test_all_reduce_sum(self):
        self.each(partial(self.check_all_reduce, "sum"), self.declared(EVERYTHING, "all_reduce", "sum"))

    def test_reduce_sum(self):
        self.each(partial(self.check_reduce, "sum"), self.declared(EVERYTHING, "reduce", "sum"))

    def test_reduce_scatter(self):
        self.each(
            partial(self.check_reduce_scatter, "sum"), self.declared(EVERYTHING, "reduce_scatter", "sum")
        )

    def test_reduce_scatter_tensor(self):
        check = partial(self.check_reduce_scatter_tensor, dist.reduce_scatter_tensor, "sum")
        self.each(check, self.declared(EVERYTHING, "reduce_scatter_tensor", "sum"), scalars=False)

    @unittest.skipUnless(hasattr(dist, "reduce_scatter_single"), "reduce_scatter_single is new in torch 2.13")
    def test_reduce_scatter_single(self):
        check = partial(self.check_reduce_scatter_tensor, dist.reduce_scatter_single, "sum")
        self.each(check, self.declared(EVERYTHING, "reduce_scatter_tensor", "sum"), scalars=False)

    @needs_all_to_all
    def test_all_to_all(self):
        self.each(self.check_all_to_all, self.declared(EVERYTHING, "all_to_all"))

    def test_all_to_all_single_equal_split(self):
        self.each(self.check_equal_split, self.declared(EVERYTHING, "all_to_all_single"), scalars=False)

    @needs(Capability.UNEVEN_SPLITS)
    def test_all_to_all_single_unequal_split(self):
        # None from 0 to itself, and other sizes in one direction than in the other.
        splits = [[sender + 2 * receiver for receiver in self.everyone] for sender in self.everyone]
        for dtype in self.declared(EVERYTHING, "all_to_all_single"):
            with self.subTest(dtype=str(dtype)):
                self.check_all_to_all_single(Case(dtype, ROW_SHAPE), splits, say_splits=True)

    def test_large_tensors(self):
        for operation, check in (
            ("broadcast", self.check_broadcast),
            ("all_gather", self.check_all_gather),
            ("all_reduce", partial(self.check_all_reduce, "sum")),
            ("reduce", partial(self.check_reduce, "sum")),
            ("all_to_all", self.check_all_to_all),
        ):
            if declares(operation):
                check(LARGE, 0)


class ReduceOperations(Checks):
    """Reductions by every operation but SUM, on the default group, over all dtypes that it has."""

    cases = staticmethod(dtype_cases)

    def test_all_reduce_avg(self):
        self.each_declared(self.check_all_reduce, "all_reduce", "avg")

    def test_all_reduce_product(self):
        self.each_declared(self.check_all_reduce, "all_reduce", "product")

    def test_all_reduce_min(self):
        self.each_declared(self.check_all_reduce, "all_reduce", "min")

    def test_all_reduce_max(self):
        self.each_declared(self.check_all_reduce, "all_reduce", "max")

    def test_all_reduce_band(self):
        self.each_declared(self.check_all_reduce, "all_reduce", "band")

    def test_all_reduce_bor(self):
        self.each_declared(self.check_all_reduce, "all_reduce", "bor")

    def test_all_reduce_bxor(self):
        self.each_declared(self.check_all_reduce, "all_reduce", "bxor")

    def test_reduce_avg(self):
        self.each_declared(self.check_reduce, "reduce", "avg")

    def test_reduce_product(self):
        self.each_declared(self.check_reduce, "reduce", "product")

    def test_reduce_min(self):
        self.each_declared(self.check_reduce, "reduce", "min")

    def test_reduce_max(self):
        self.each_declared(self.check_reduce, "reduce", "max")

    def test_reduce_bitwise(self):
        for op in ("band", "bor", "bxor"):
            self.each_declared(self.check_reduce, "reduce", op)

    def test_reduce_scatter_ops(self):
        self.each_op(self.check_reduce_scatter, "reduce_scatter")

    def test_reduce_scatter_tensor_ops(self):
        check = partial(self.check_reduce_scatter_tensor, dist.reduce_scatter_tensor)
        self.each_op(check, "reduce_scatter_tensor")


class InAnotherWay(Collectives):
    """Every dense collective, each with a few cases, and each operation once."""

    cases = staticmethod(few_cases)

    def test_all_reduce_ops(self):
        self.each_op(self.check_all_reduce, "all_reduce")

    def test_reduce_ops(self):
        self.each_op(self.check_reduce, "reduce")

    def test_reduce_scatter_ops(self):
        self.each_op(self.check_reduce_scatter, "reduce_scatter")


class AsyncCollectives(Asynchronously, InAnotherWay):
    """Every dense collective with ``async_op=True``: the result is there when the handle was waited for."""


class InferenceCollectives(InAnotherWay):
    """Every dense collective in inference mode, on tensors that were made in it."""

    def prepare(self):
        super().prepare()
        mode = torch.inference_mode()
        mode.__enter__()
        self.addCleanup(mode.__exit__, None, None, None)

    def call(self, collective, *args, **kwargs):
        self.assertTrue(torch.is_inference_mode_enabled())
        super().call(collective, *args, **kwargs)


class SubGroupCollectives(OnSubGroup, InAnotherWay):
    """Every dense collective on sub-groups: roots are global ranks, order is by group rank."""


instantiate_world_sizes(globals(), Collectives, ReduceOperations, AsyncCollectives, SubGroupCollectives)
instantiate_world_sizes(globals(), InferenceCollectives, sizes=(3,))

if __name__ == "__main__":
    run_tests()
