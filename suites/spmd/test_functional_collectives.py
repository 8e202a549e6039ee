"""What functional collectives call, give and refuse, there and back: ``functional_collectives.txt`` has it.

A section is an expression, and what comes of it in one process that is a rank of a world of which no other
rank is there. One that is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import check_sections
from suites.fake_world import world
from suites.spmd import collective_expressions

ACCEPTED = Path(__file__).with_name("functional_collectives.txt")


@unittest.skipUnless(torch_at_least("2.13"), "the table is that of torch 2.13")
class FunctionalCollectivesTest(TestCase):
    """Each expression in a world of its own: groups are named by their number."""

    def answer(self, expression):
        with world():
            return collective_expressions.lines_of(expression)

    def test_calls(self):
        check_sections(self, ACCEPTED, self.answer, 0, 2)

    def test_calls_of_a_second_part(self):
        check_sections(self, ACCEPTED, self.answer, 1, 2)


if __name__ == "__main__":
    run_tests()
