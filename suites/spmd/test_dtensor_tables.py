"""What placements, specs, plans of redistributions and rules of views are, as ``dtensor_tables.txt`` has it.

Ranks hold the right numbers, too, where more is moved than has to be, or where a size is right by chance. A
section is an expression, and what comes of it in one process that is a rank of a world of which no other rank
is there. One that is not as torch has it is shown as it would have to be.
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
from suites.fake_world import world
from suites.spmd import dtensor_expressions

ACCEPTED = Path(__file__).with_name("dtensor_tables.txt")
#: Tests that the expressions are spread over.
PARTS = 6


@unittest.skipUnless(torch_at_least("2.13"), "the tables are those of torch 2.13")
class DTensorTablesTest(TestCase):
    """A part of the table; the tests of the others are added below."""

    def check_part(self, part):
        with world():
            check_sections(self, ACCEPTED, dtensor_expressions.lines_of, part, PARTS)


add_parts(DTensorTablesTest, PARTS)

if __name__ == "__main__":
    run_tests()
