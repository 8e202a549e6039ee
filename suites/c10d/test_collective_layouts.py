"""How gloo reads memory: which layouts are taken as they look, and which by the bytes that lie there.

A dense tensor, contiguous or not, is what it looks like to every collective (``test_collectives`` has
that), as long as all ranks have the same layout. Beyond that gloo is not careful, and says nothing. These
tests pin what it does, so that a change, for better or worse, is seen: they are a list of what to avoid.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np
import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import needs
from suites.c10d import reference
from suites.c10d.base import gloo_on_cpu, gloo_only, instantiate_world_sizes, needs_all_to_all
from suites.c10d.inputs import Case

#: A column of this is a view with gaps: its elements lie three apart.
TABLE = Case(shape=(4, 3))
COLUMN = Case(shape=(4,))


@gloo_only
class GappedViews:
    """Views with gaps: a column of a table."""

    def prepare(self):
        self.tables = [TABLE.term("sum", rank) for rank in self.everyone]
        self.columns = [table[:, 1] for table in self.tables]
        self.table = self.on_device(TABLE, self.tables[self.rank])
        self.column = self.table[:, 1]

    def check_memory(self, expected):
        """Check the table under the column: four elements from its first on are as said, the rest is kept."""
        memory = self.tables[self.rank].flatten()
        memory[1:5] = expected
        self.check(TABLE, self.table, memory.reshape(TABLE.shape))

    def beneath(self):
        """Return what lies in memory at each rank's column: four elements in a row."""
        return [table.flatten()[1:5] for table in self.tables]

    # Taken as they look.

    def test_all_gather(self):
        outputs = [TABLE.blank(self.device)[:, 1] for _ in self.everyone]
        dist.all_gather(outputs, self.column)
        self.check(COLUMN, outputs, self.columns)

    def test_all_gather_into_tensor(self):
        output = COLUMN.blank(self.device, rows=4 * self.world_size)
        dist.all_gather_into_tensor(output, self.column)
        self.check(COLUMN, output, np.concatenate(self.columns))

    def test_gather(self):
        outputs = [TABLE.blank(self.device)[:, 1] for _ in self.everyone]
        dist.gather(self.column, outputs if self.rank == 0 else None, 0)
        if self.rank == 0:
            self.check(COLUMN, outputs, self.columns)

    @needs_all_to_all
    def test_all_to_all(self):
        outputs = [TABLE.blank(self.device)[:, 1] for _ in self.everyone]
        parts = [self.on_device(TABLE, TABLE.label(self.rank, part))[:, 1] for part in self.everyone]
        dist.all_to_all(outputs, parts)
        self.check(COLUMN, outputs, [TABLE.label(rank, self.rank)[:, 1] for rank in self.everyone])

    @needs(operation="all_reduce_coalesced")
    def test_all_reduce_coalesced(self):
        dist.all_reduce_coalesced([self.column])
        self.check(COLUMN, self.column, reference.combine(self.columns, "sum"))

    # Refused.

    def test_all_to_all_single(self):
        rows = [Case(shape=(self.world_size, 3)).label(rank) for rank in self.everyone]
        table = torch.tensor(rows[self.rank], device=self.device)
        with self.refused(ValueError, "Tensors must be contiguous"):
            dist.all_to_all_single(torch.zeros(self.world_size, device=self.device), table[:, 1])
        self.check_group_works()

    # Taken for the memory beneath them: the column's own values are wrong afterwards, and its neighbours too.

    @gloo_on_cpu
    def test_broadcast_works_on_the_memory(self):
        last = self.world_size - 1
        dist.broadcast(self.column, last)
        self.check_memory(reference.broadcast(self.beneath(), last)[self.rank])

    @gloo_on_cpu
    def test_all_reduce_works_on_the_memory(self):
        dist.all_reduce(self.column)
        self.check_memory(reference.all_reduce(self.beneath(), "sum")[self.rank])

    @gloo_on_cpu
    def test_reduce_works_on_the_memory(self):
        dist.reduce(self.column, 0)
        if self.rank == 0:
            self.check_memory(reference.combine(self.beneath(), "sum"))

    @gloo_on_cpu
    def test_scatter_works_on_the_memory(self):
        last = self.world_size - 1
        parts = [COLUMN.label(last, part) for part in self.everyone]
        sent = [self.on_device(COLUMN, part) for part in parts]
        dist.scatter(self.column, sent if self.rank == last else None, last)
        self.check_memory(parts[self.rank])


@gloo_only
class OtherLayouts:
    """Tensors that are dense, but laid out in another way on another rank, or cut where no element ends."""

    def test_broadcast_keeps_the_order_in_memory(self):
        # The last rank has rows after rows, the others columns after columns.
        last = self.world_size - 1
        case = Case(shape=(2, 3), transposed=self.rank != last)
        tensor = self.on_device(case, case.label(self.rank))
        dist.broadcast(tensor, last)
        sent = case.label(last)
        self.check(case, tensor, sent if self.rank == last else sent.flatten().reshape(3, 2).T)

    def test_all_to_all_single_into_columns(self):
        # The input has to be contiguous; the output is filled in the order of its memory.
        case = Case(shape=(self.world_size, 2))
        held = [case.label(member) for member in self.everyone]
        ones = [[1 for _ in self.everyone] for _ in self.everyone]
        received = reference.all_to_all_single(held, ones)[self.rank]
        output = Case(shape=case.shape, transposed=True).blank(self.device)
        dist.all_to_all_single(output, self.on_device(case, held[self.rank]))
        self.check(case, output, received.flatten().reshape(2, self.world_size).T)

    def test_all_to_all_single_is_cut_by_bytes(self):
        # Its documentation wants dimension 0 to divide by the group's size; gloo wants the bytes to.
        rows = self.world_size + 1
        held = [Case(torch.uint8, (rows * self.world_size,)).label(rank) for rank in self.everyone]
        tensor = torch.tensor(held[self.rank]).view(rows, self.world_size)
        output = torch.zeros_like(tensor)
        dist.all_to_all_single(output, tensor)
        blocks = [[rows] * self.world_size for _ in self.everyone]
        received = reference.all_to_all_single(held, blocks)[self.rank]
        self.same(output.flatten(), torch.tensor(received))

    def test_all_to_all_single_of_bytes_that_cannot_be_cut(self):
        tensor = torch.zeros(self.world_size + 1, dtype=torch.uint8)
        with self.refused(RuntimeError, "in->size % context->size == 0"):
            dist.all_to_all_single(torch.zeros_like(tensor), tensor)
        self.check_group_works()

    def test_broadcast_ignores_the_shape(self):
        # As many elements are enough.
        last = self.world_size - 1
        sent = Case(shape=(2, 3)).label(last)
        tensor = torch.tensor(sent) if self.rank == last else torch.zeros(6)
        dist.broadcast(tensor, last)
        self.same(tensor.flatten(), torch.tensor(sent).flatten())

    def test_requires_grad(self):
        # A collective is no operation of autograd: a leaf is changed in place, and no graph is made.
        tensor = torch.full((2,), self.rank + 1.0, requires_grad=True)
        dist.all_reduce(tensor)
        self.same(tensor.detach(), torch.full((2,), sum(range(1, self.world_size + 1)) + 0.0))
        self.assertTrue(tensor.is_leaf)
        self.assertIsNone(tensor.grad_fn)


instantiate_world_sizes(globals(), GappedViews, OtherLayouts, sizes=(2, 3))


if __name__ == "__main__":
    run_tests()
