"""Backward passes as compiled autograd captures them, as ``captured_backwards.txt`` has it. In one process.

Gradients are right, too, where a graph is captured again, or where a hook stands at another place. A section
that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import sys
import unittest
import warnings
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import accepted_sections, check_section
from suites.patterns import captured_as_text, captured_backwards
from suites.patterns.base import PatternTestCase

ACCEPTED = Path(__file__).with_name("captured_backwards.txt")


@unittest.skipUnless(torch_at_least("2.13"), "the graphs are those of torch 2.13")
class DistributedPatternTests(PatternTestCase):
    """Programs with hooks, functions of the user's and layers, and those that dynamo compiled forward."""

    def check_part(self, part, parts=3):
        sections = accepted_sections(ACCEPTED)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for program in captured_backwards.PROGRAMS[part::parts]:
                check_section(self, sections, program.__name__, captured_as_text.lines_of(program))

    def test_captured_backwards(self):
        self.check_part(0)

    def test_captured_backwards_of_a_second_part(self):
        self.check_part(1)

    def test_captured_backwards_of_a_third_part(self):
        self.check_part(2)


if __name__ == "__main__":
    run_tests()
