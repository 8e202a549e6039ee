"""What a function does to its inputs: writes of data and of metadata, in the graph or after it."""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

import torch

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.base import AotTestCase


class TestAOTAutogradInputMutation(AotTestCase):
    """Inputs that the function writes to."""

    def test_input_mutation_simple(self):
        def f(a):
            a.mul_(2)
            return a * 3

        result = self.verify_both(f, [torch.ones(3, 3)], test_mutation=True)
        self.assertExpectedGraph(
            result.forward_text,
            """\
forward(primals_1)
  clone = aten.clone.default(primals_1)
  mul = aten.mul.Tensor(clone, 2)
  mul_1 = aten.mul.Tensor(mul, 3)
  return (mul, mul_1)""",
        )


if __name__ == "__main__":
    run_tests()
