"""What AOTAutograd decides before graphs, and calls do to inputs and results, as ``decisions.txt`` has it.

A section is a program with a way in which it is compiled and called. One that is not as torch has it is
shown as it would have to be.
"""

from __future__ import annotations

import logging
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import add_parts
from suites.aot import decisions, ways
from suites.aot.table_case import TableCase

#: Tests that the sections are spread over.
PARTS = 8


@unittest.skipUnless(torch_at_least("2.13"), "the decisions are those of torch 2.13")
class DecisionsTest(TableCase):
    """A part of the table; the tests of the others are added below."""

    accepted = Path(__file__).with_name("decisions.txt")

    def setUp(self):
        super().setUp()
        told = logging.getLogger("torch._subclasses.fake_tensor")  # of the programs that are refused
        self.addCleanup(told.setLevel, told.level)
        told.setLevel(logging.CRITICAL)

    def check_part(self, part):
        for program, way in list(ways.chosen())[part::PARTS]:
            self.check(f"{program}, {way}", decisions.lines_of(program, way))


add_parts(DecisionsTest, PARTS)

if __name__ == "__main__":
    run_tests()
