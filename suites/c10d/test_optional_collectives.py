"""What gloo's collectives do not have and other backends do: tested where the target declares it.

Under gloo these tests are skipped as undeclared; that gloo refuses the same is in ``test_collective_errors``.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist

from harness import conformance, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs, require
from suites.c10d import reference
from suites.c10d.base import Asynchronously, OnSubGroup, instantiate_world_sizes, name_of
from suites.c10d.inputs import COMPLEX, FLOATS, INTEGERS, REFUSED, Case, dtype_cases
from suites.c10d.test_collectives import Checks

#: What terms are multiplied by before they are added; exact in every dtype.
FACTOR = 0.5


def rows(member):
    """Return how many rows a member has where members have different numbers: none on the second."""
    return (3, 0, 1, 4)[member]


class OptionalCollectives(Checks):
    """Dtypes, reductions and sizes that gloo refuses, on the default group."""

    cases = staticmethod(dtype_cases)

    # dtypes

    def test_undeclared_dtypes(self):
        # Where a report is written of what works, though it is not declared; elsewhere the declared ones.
        tried = 0
        for operation, check in (
            ("broadcast", self.check_broadcast),
            ("all_gather", self.check_all_gather),
            ("all_reduce", partial(self.check_all_reduce, "sum")),
        ):
            for case in dtype_cases(*REFUSED):
                coordinates = {"dtype": name_of(case.dtype)}
                coordinates |= {"reduction": "sum"} if operation == "all_reduce" else {}
                if conformance.declared_or_recorded(operation, **coordinates):
                    with conformance.trial(operation, **coordinates, **self.called):
                        check(case, 0)
                    tried += 1
        if not tried:
            require(operation="broadcast", dtype="int16")

    @needs(operation="all_gather", dtype="int16")
    def test_all_gather_other_dtypes(self):
        self.each(self.check_all_gather, self.declared(REFUSED, "all_gather"))

    @needs(operation="broadcast", dtype="int16")
    def test_broadcast_other_dtypes(self):
        self.each(self.check_broadcast, self.declared(REFUSED, "broadcast"))

    @needs(operation="all_to_all_single", dtype="int16")
    def test_all_to_all_single_other_dtypes(self):
        self.each(self.check_equal_split, self.declared(REFUSED, "all_to_all_single"))

    @needs(operation="all_reduce", reduction="sum", dtype="int16")
    def test_all_reduce_other_dtypes(self):
        self.each(partial(self.check_all_reduce, "sum"), self.declared(REFUSED, "all_reduce", "sum"))

    @needs(operation="gather", dtype="complex64")
    def test_gather_complex(self):
        self.each(self.check_gather, self.declared(COMPLEX, "gather"))

    # reductions

    @needs(operation="all_reduce", reduction="avg", dtype="int32")
    def test_all_reduce_avg_of_integers(self):
        self.each(partial(self.check_all_reduce, "avg"), self.declared(INTEGERS, "all_reduce", "avg"))

    @needs(operation="reduce_scatter_tensor", reduction="avg", dtype="int32")
    def test_reduce_scatter_tensor_avg_of_integers(self):
        check = partial(self.check_reduce_scatter_tensor, dist.reduce_scatter_tensor, "avg")
        self.each(check, self.declared(INTEGERS, "reduce_scatter_tensor", "avg"))

    @needs(operation="reduce_scatter", reduction="product", dtype="complex64")
    def test_reduce_scatter_product_of_complex(self):
        self.each(partial(self.check_reduce_scatter, "product"), COMPLEX)

    @needs(operation="all_reduce", reduction="premul_sum")
    def test_all_reduce_premul_sum(self):
        for dtype in self.declared(FLOATS, "all_reduce", "premul_sum"):
            with self.subTest(dtype=str(dtype)):
                case = Case(dtype)
                held = [case.term("sum", member) for member in self.everyone]
                tensor = self.on_device(case, held[self.group_rank])
                self.call(dist.all_reduce, tensor, dist._make_nccl_premul_sum(FACTOR))
                self.check(case, tensor, FACTOR * reference.combine(held, "sum"), rounded=True)

    @needs(operation="reduce_scatter", reduction="premul_sum")
    def test_reduce_scatter_premul_sum(self):
        case = Case()
        parts = [[case.term("sum", member, part) for part in self.everyone] for member in self.everyone]
        mine = [self.on_device(case, part) for part in parts[self.group_rank]]
        output = case.blank(self.device)
        self.call(dist.reduce_scatter, output, mine, dist._make_nccl_premul_sum(FACTOR))
        expected = reference.reduce_scatter(parts, "sum")[self.group_rank]
        self.check(case, output, FACTOR * expected, rounded=True)

    # sizes

    @needs(Capability.UNEVEN_LISTS, operation="all_gather")
    def test_all_gather_of_uneven_sizes(self):
        cases = [Case(shape=(rows(member), 2)) for member in self.everyone]
        held = [case.label(member) for member, case in enumerate(cases)]
        outputs = [case.blank(self.device) for case in cases]
        self.call(dist.all_gather, outputs, self.on_device(cases[self.group_rank], held[self.group_rank]))
        self.check(cases[0], outputs, held)

    @needs(Capability.UNEVEN_LISTS, operation="all_to_all")
    def test_all_to_all_of_uneven_sizes(self):
        # What a member sends to another has the sender's rows and one more for each rank of the receiver.
        def part(sender, receiver):
            return Case(shape=(rows(sender) + receiver, 2)).label(sender, receiver)

        sent = [self.on_device(Case(), part(self.group_rank, receiver)) for receiver in self.everyone]
        expected = [part(sender, self.group_rank) for sender in self.everyone]
        outputs = [torch.full(each.shape, -1.0, device=self.device) for each in expected]
        self.call(dist.all_to_all, outputs, sent)
        self.check(Case(), outputs, expected)

    @needs(Capability.STACKED_OUTPUTS, operation="all_gather_into_tensor")
    def test_all_gather_into_a_stack(self):
        case = Case()
        held = [case.label(member) for member in self.everyone]
        output = torch.full((len(held), *case.shape), -1.0, device=self.device)
        self.call(dist.all_gather_into_tensor, output, self.on_device(case, held[self.group_rank]))
        self.check(case, list(output), held)


class AsyncOptionalCollectives(Asynchronously, OptionalCollectives):
    """The same with ``async_op=True``."""


class SubGroupOptionalCollectives(OnSubGroup, OptionalCollectives):
    """The same on sub-groups."""


instantiate_world_sizes(globals(), OptionalCollectives, sizes=(2, 3))
instantiate_world_sizes(globals(), AsyncOptionalCollectives, SubGroupOptionalCollectives, sizes=(3,))


if __name__ == "__main__":
    run_tests()
