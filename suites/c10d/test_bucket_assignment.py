"""How DDP shares gradients out among buckets: by size, by dtype, with limits that may grow. No ranks.

The expectation is worked out by hand for upstream's four examples, and for drawn ones by a reference that
follows the rule, not the implementation.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.hypothesis_examples import bounded

DTYPES = (torch.float32, torch.float64, torch.float16)


def assigned(tensors, limits):
    """Return the buckets that the first sight of each dtype fills, and the limit that closed each.

    Tensors of a dtype fill its bucket in order. One that reaches the limit in force for the dtype closes it;
    the dtype's next bucket is under the next limit, the last limit staying in force. Buckets left open at the
    end come too. All are in the order of their first tensors.
    """
    buckets = []
    for dtype in {tensor.dtype: None for tensor in tensors}:
        turn, indices, size = 0, [], 0
        for index, tensor in enumerate(tensors):
            if tensor.dtype == dtype:
                indices.append(index)
                size += tensor.numel() * tensor.element_size()
                if size >= limits[turn]:
                    buckets.append((indices, limits[turn]))
                    turn, indices, size = min(turn + 1, len(limits) - 1), [], 0
        if indices:
            buckets.append((indices, limits[turn]))
    buckets.sort()
    return [indices for indices, _ in buckets], [limit for _, limit in buckets]


def floats(*sizes):
    return [torch.empty(size) for size in sizes]


def alternating():
    """Return six tensors of 200 bytes, by turns of four and of eight bytes an element."""
    return [tensor for _ in range(3) for tensor in (torch.empty(50), torch.empty(25, dtype=torch.float64))]


class ComputeBucketAssignmentTest(TestCase):
    """Buckets by hand, and by the reference."""

    def check(self, tensors, limits, buckets, limit_of_each):
        actual = dist._compute_bucket_assignment_by_size(tensors, limits)
        self.assertEqual(actual, (buckets, limit_of_each))
        self.assertEqual(assigned(tensors, limits), (buckets, limit_of_each))

    def test_single_limit_single_dtype(self):
        self.check(floats(100, 200, 100, 50), [400], [[0], [1], [2], [3]], [400] * 4)

    def test_single_limit_multi_dtype(self):
        self.check(alternating(), [400], [[0, 2], [1, 3], [4], [5]], [400] * 4)

    def test_multi_limit_single_dtype(self):
        self.check(floats(10, 10, 10, 10), [40, 80], [[0], [1, 2], [3]], [40, 80, 80])

    def test_multi_limit_multi_dtype(self):
        self.check(alternating(), [200, 400], [[0], [1], [2, 4], [3, 5]], [200, 200, 400, 400])

    @bounded(200)
    @given(
        shapes=st.lists(st.tuples(st.integers(0, 40), st.sampled_from(DTYPES)), min_size=1, max_size=12),
        limits=st.lists(st.integers(1, 400), min_size=1, max_size=4),
    )
    def test_drawn_sizes_dtypes_and_limits(self, shapes, limits):
        tensors = [torch.empty(size, dtype=dtype) for size, dtype in shapes]
        self.assertEqual(dist._compute_bucket_assignment_by_size(tensors, limits), assigned(tensors, limits))

    def test_sparse_gradients_have_buckets_of_their_own(self):
        buckets, _ = dist._compute_bucket_assignment_by_size(floats(1, 1, 1, 1), [400], [False, True] * 2)
        self.assertEqual(buckets, [[0, 2], [1], [3]])


if __name__ == "__main__":
    run_tests()
