"""``ReduceOp`` as a value: what it is an instance of, equal to, copied to and pickled to. No ranks."""

from __future__ import annotations

import copy
import pickle
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)

NAMES = ("SUM", "AVG", "PRODUCT", "MIN", "MAX", "BAND", "BOR", "BXOR")
MEMBERS = {name: getattr(dist.ReduceOp, name) for name in NAMES}
#: What a sum can be multiplied by first: a tensor or a number. Neither needs NCCL before it is used.
FACTORS = (torch.tensor(1.0), 2.0)


class ReduceOpTest(TestCase):
    """The members of ReduceOp, objects made from them, and sums with a factor."""

    def premultiplied(self):
        return [dist._make_nccl_premul_sum(factor) for factor in FACTORS]

    def test_op_isinstance_of_reduceop(self):
        for op in (*MEMBERS.values(), *self.premultiplied()):
            self.assertIsInstance(op, c10d.ReduceOp)
        self.assertNotIsInstance("SUM", c10d.ReduceOp)

    def test_reduceop_copyable(self):
        for duplicate in (copy.copy, copy.deepcopy):
            for name, member in MEMBERS.items():
                with self.subTest(copy=duplicate.__name__, op=name):
                    self.assertEqual(duplicate(member), member)
                    self.assertEqual(duplicate(c10d.ReduceOp(member)), member)
            for op in self.premultiplied():
                self.assertEqual(duplicate(op), op)

    def test_reduceop_pickle(self):
        for name, member in MEMBERS.items():
            with self.subTest(op=name):
                self.assertEqual(pickle.loads(pickle.dumps(member)), member)
                self.assertEqual(pickle.loads(pickle.dumps(c10d.ReduceOp(member))), c10d.ReduceOp(member))
        for op in self.premultiplied():
            self.assertEqual(pickle.loads(pickle.dumps(op)), op)

    def test_reduceop_equal(self):
        for name, member in MEMBERS.items():
            with self.subTest(op=name):
                op = c10d.ReduceOp(member)
                self.assertTrue(op == op)
                self.assertTrue(op == member)
                # The member knows only its own kind.
                self.assertFalse(member == op)
                self.assertFalse(op == "abc")
                self.assertFalse(member == "abc")
                self.assertNotIn(None, (member, op))
                self.assertNotIn("abc", (member, op))
                equal = [other for other in NAMES if op == MEMBERS[other]]
                self.assertEqual(equal, [name])


if __name__ == "__main__":
    run_tests()
