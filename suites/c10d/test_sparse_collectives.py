"""The one collective that gloo has for sparse tensors: all_reduce of COO tensors by SUM."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import numpy as np
import torch
import torch.distributed as dist

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.targets import Capability, needs
from suites.c10d import reference
from suites.c10d.base import Asynchronously, OnSubGroup, gloo_only, instantiate_world_sizes
from suites.c10d.inputs import Case

SHAPE = (6, 4)
#: (sparse dimensions, dense dimensions) of the tensor; of two dimensions in all, as SHAPE has.
DIMENSIONS = ((2, 0), (1, 1))


def pattern(rank):
    """Return a matrix with a few entries: one row that only this rank has, one that all have."""
    matrix = np.zeros(SHAPE, np.float32)
    matrix[rank] = Case(shape=SHAPE[1:]).term("sum", rank)
    matrix[-1, rank % SHAPE[1] :] = rank + 1.5
    return matrix


@needs(Capability.SPARSE)
class SparseCollectives:
    """Sparse all_reduce on the default group."""

    def sparse(self, matrix, sparse_dims, dtype=torch.float32):
        return torch.tensor(matrix, device=self.device).to(dtype).to_sparse(sparse_dims)

    def check_sum(self, held, sparse_dims, dtype=torch.float32):
        tensor = self.sparse(held[self.group_rank], sparse_dims, dtype)
        self.call(dist.all_reduce, tensor)
        self.assertEqual((tensor.sparse_dim(), tensor.dense_dim()), (sparse_dims, 2 - sparse_dims))
        self.assertTrue(tensor.is_coalesced())
        expected = torch.tensor(reference.combine(held, "sum")).to(dtype)
        self.assertEqual(tensor.to_dense(), expected)
        self.assertEqual(tensor._nnz(), expected.to_sparse(sparse_dims)._nnz())

    def test_sparse_all_reduce_sum(self):
        for sparse_dims, dense_dims in DIMENSIONS:
            with self.subTest(sparse=sparse_dims, dense=dense_dims):
                self.check_sum([pattern(member) for member in self.everyone], sparse_dims)

    def test_sparse_all_reduce_sum_dtypes(self):
        for dtype in (torch.float64, torch.uint8, torch.int32, torch.int64):
            with self.subTest(dtype=str(dtype)):
                self.check_sum([np.floor(pattern(rank)) for rank in self.everyone], 2, dtype)

    def test_sparse_all_reduce_of_unequal_counts(self):
        # One rank has nothing at all, the others more the higher their rank; then nobody has anything.
        self.check_sum([np.tril(np.full(SHAPE, rank, np.float32), rank - 2) for rank in self.everyone], 2)
        self.check_sum([np.zeros(SHAPE, np.float32) for _ in self.everyone], 2)


class AsyncSparseCollectives(Asynchronously, SparseCollectives):
    """Sparse all_reduce by handle."""


class SubGroupSparseCollectives(OnSubGroup, SparseCollectives):
    """Sparse all_reduce on sub-groups."""


@gloo_only
class SparseRefusals:
    """What there is for dense tensors only."""

    def test_other_operations(self):
        for op in ("AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR"):
            message = "allreduce of sparse tensors only works with ReduceOp.SUM"
            with self.refused(RuntimeError, message, op=op):
                dist.all_reduce(torch.eye(2).to_sparse(), getattr(dist.ReduceOp, op))
        self.check_group_works()

    def test_other_collectives(self):
        eye = torch.eye(2).to_sparse()
        for operator, call in {
            "broadcast_": lambda: dist.broadcast(eye, 0),
            "allgather_": lambda: dist.all_gather([eye.clone() for _ in range(self.world_size)], eye),
            "reduce_": lambda: dist.reduce(eye, 0),
            "send": lambda: dist.send(eye, (self.rank + 1) % self.world_size),
        }.items():
            message = f"Could not run 'c10d::{operator}' with arguments from the 'SparseCPU' backend."
            with self.refused(NotImplementedError, message, operator=operator):
                call()
        self.check_group_works()

    def test_compressed_rows(self):
        message = "Could not run 'c10d::allreduce_' with arguments from the 'SparseCsrCPU' backend."
        with self.refused(NotImplementedError, message):
            dist.all_reduce(torch.eye(2).to_sparse_csr())
        self.check_group_works()


instantiate_world_sizes(globals(), SparseCollectives)
instantiate_world_sizes(globals(), SubGroupSparseCollectives, sizes=(3, 4))
instantiate_world_sizes(globals(), AsyncSparseCollectives, SparseRefusals, sizes=(2, 3))


if __name__ == "__main__":
    run_tests()
