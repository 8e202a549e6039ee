"""Which reduce operation a call's options were given: read as torch has it, remembered or not."""

from __future__ import annotations

import unittest
from typing import Any

import torch.distributed as dist
from torch._C import _distributed_c10d

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.communication.record.reduce_operations import last, name_of, number_in, number_of
from harness.communication.taps import taps

c10d: Any = _distributed_c10d
KINDS = {n: k for n, k in dist.ReduceOp.RedOpType.__members__.items() if n != "PREMUL_SUM"}
OPTIONS = ("AllreduceOptions", "AllreduceCoalescedOptions", "ReduceOptions", "ReduceScatterOptions")


class ReduceOperationsTest(unittest.TestCase):
    """What options are given, and what is said of it."""

    def setUp(self) -> None:
        taps.prepare()

    def test_options(self) -> None:
        """Torch has what was assigned, by its kind or as an object; the number is the same in all ways."""
        for name in OPTIONS:
            for shown, kind in KINDS.items():
                with self.subTest(options=name, operation=shown):
                    options = getattr(c10d, name)()
                    options.reduceOp = kind
                    self.assertIs(last.given[0], options)
                    self.assertEqual((options.reduceOp.op, number_in(options)), (kind, hash(kind)))
                    options.reduceOp = dist.ReduceOp(kind)
                    self.assertIsNone(last.given[0])
                    self.assertEqual((options.reduceOp.op, number_in(options)), (kind, hash(kind)))

    def test_the_last_options(self) -> None:
        """Options that were not the last are read; so are those that nobody gave anything."""
        largest, smallest = c10d.AllreduceOptions(), c10d.AllreduceOptions()
        largest.reduceOp = dist.ReduceOp.MAX
        smallest.reduceOp = dist.ReduceOp.MIN
        found = [number_in(options) for options in (largest, smallest, c10d.AllreduceOptions())]
        self.assertEqual(found, [hash(getattr(dist.ReduceOp, name)) for name in ("MAX", "MIN", "SUM")])

    def test_with_a_factor(self) -> None:
        """An operation with a factor keeps it, and is none that was made before."""
        options = c10d.AllreduceOptions()
        options.reduceOp = c10d._make_nccl_premul_sum(2.0)
        self.assertEqual(number_in(options), hash(dist.ReduceOp.PREMUL_SUM))
        self.assertIsNone(last.given[0])

    def test_no_operation(self) -> None:
        """What is no reduce operation is refused as by torch alone."""
        with self.assertRaises(TypeError):
            c10d.AllreduceOptions().reduceOp = "SUM"

    def test_names_and_numbers(self) -> None:
        """Names are those of torch, in each form in which an operation comes."""
        for shown, kind in KINDS.items():
            for operation in (kind, dist.ReduceOp(kind)):
                self.assertEqual((name_of(operation), number_of(operation)), (shown, int(kind)))
        self.assertEqual(
            (name_of(None), name_of("sum"), number_of(None), number_of("sum")), ("", "SUM", None, "sum")
        )


if __name__ == "__main__":
    run_tests()
