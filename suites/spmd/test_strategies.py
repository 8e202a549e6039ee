"""What DTensor weighs for an operator, with what it costs, as ``strategies.txt`` has it. No ranks.

Whatever is chosen, the numbers are right; a strategy that is missing, or costs too much, shows in a model
that moves more than it has to. An operator that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import add_parts, check_sections
from suites.spmd import layouts, strategies

ACCEPTED = Path(__file__).with_name("strategies.txt")
#: Tests that the operators are spread over.
PARTS = 8


@unittest.skipUnless(torch_at_least("2.13"), "the strategies are those of torch 2.13")
class StrategiesTest(TestCase):
    """A part of the table; the tests of the others are added below."""

    def check_part(self, part):
        with layouts.meshes() as of:
            check_sections(self, ACCEPTED, lambda text: strategies.lines_of(text, of), part, PARTS)


add_parts(StrategiesTest, PARTS)

if __name__ == "__main__":
    run_tests()
