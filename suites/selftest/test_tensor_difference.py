"""Self-tests of harness.tensor_difference: the message, checked against ``assert_close`` and numpy."""

from __future__ import annotations

import re
import subprocess
import sys
import unittest

import numpy as np
import torch
from hypothesis import strategies as st

from harness import tensor_difference
from suites.selftest.properties import given

NAN, INF = float("nan"), float("inf")
numbers = st.sampled_from((0.0, 1.0, -1.0, 1.25, 1e30, NAN, INF, -INF))
pairs = st.lists(st.tuples(numbers, numbers), min_size=1, max_size=6)

FAILING = """
import sys, torch, torch.distributed
from harness import TestCase
try:
    TestCase().assertEqual(torch.ones(2), torch.zeros(2))
except AssertionError:
    print("failed", *{"sympy", "torch.distributed.tensor"} & sys.modules.keys())
"""


def said(x: torch.Tensor, y: torch.Tensor, rtol: float = 0.0, atol: float = 0.0) -> str:
    return tensor_difference.described(x, y, rtol, atol, equal_nan=True)


class WordsTest(unittest.TestCase):
    def test_all_of_it(self) -> None:
        text = said(
            torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[1.0, 2.5], [3.0, 40.0]]), 0.5, 0.25
        )
        want = (
            "Tensor-likes are not close!",
            "",
            "Mismatched elements: 1 / 4 (25.0%)",
            "First mismatch: 4.0 where 40.0 is expected, at index (1, 1)",
            "Greatest absolute difference: 36.0 at index (1, 1) (up to 0.25 allowed)",
            "Greatest relative difference: 0.9 at index (1, 1) (up to 0.5 allowed)",
        )
        self.assertEqual(text.splitlines(), list(want))

    def test_every_kind_of_value(self) -> None:
        table = (
            (torch.tensor(1), torch.tensor(2), "1 where 2 is expected, at index ()"),
            (torch.tensor([True]), torch.tensor([False]), "True where False is expected, at index (0,)"),
            (
                torch.tensor([0, 1], dtype=torch.uint8),
                torch.tensor([0, 2], dtype=torch.uint8),
                "1.0 at index (1,)",
            ),
            (torch.tensor([3 + 4j]), torch.tensor([0j]), "5.0 at index (0,)"),
            (torch.tensor([NAN]), torch.tensor([1.0]), "difference: nan at index (0,)"),
            (torch.tensor([INF, 0.0]), torch.tensor([-INF, 1.0]), "difference: inf at index (0,)"),
            (torch.tensor([1.0]), torch.tensor([0.0]), "relative difference: inf"),
            (torch.ones(3, dtype=torch.bfloat16), torch.zeros(3, dtype=torch.bfloat16), "3 / 3 (100.0%)"),
            (torch.ones(2, 3).t(), torch.zeros(3, 2), "at index (0, 0)"),
            (torch.ones(1, requires_grad=True), torch.zeros(1), "Tensor-likes are not equal!"),
        )
        for x, y, part in table:
            with self.subTest(x=x, y=y):
                self.assertIn(part, said(x, y))

    @given(pairs)
    def test_it_counts_what_numpy_counts(self, drawn: list[tuple[float, float]]) -> None:
        x, y = (np.array(side) for side in zip(*drawn, strict=True))
        different = ~np.isclose(x, y, rtol=0.1, atol=0.0, equal_nan=True)
        if not different.any():
            return
        text = said(torch.from_numpy(x), torch.from_numpy(y), 0.1)
        found = re.search(r"elements: (\d+) /.*\nFirst .* index \((\d+),\)\n", text)
        assert found is not None
        self.assertEqual((int(found[1]), int(found[2])), (different.sum(), different.argmax()))


class CostTest(unittest.TestCase):
    def test_a_first_failure_imports_nothing_large(self) -> None:
        done = subprocess.run([sys.executable, "-c", FAILING], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.split(), ["failed"])


if __name__ == "__main__":
    unittest.main()
