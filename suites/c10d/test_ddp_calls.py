"""What functions and methods of DDP and beside it do and refuse, one by one, as ``ddp_calls.txt`` has it.

Each section of that file has as its name a program of one line, in one process that is rank 7 of 12
(``ddp_call_names.py``). Training reaches few of the cases. A section that is not as torch has it is
shown as it would have to be.
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
from suites.c10d.ddp_call_names import NAMES
from suites.fake_world import world
from suites.told_programs import told_by

ACCEPTED = Path(__file__).with_name("ddp_calls.txt")
#: Tests that the programs are spread over.
PARTS = 2


@unittest.skipUnless(torch_at_least("2.13"), "the methods are those of torch 2.13")
class DdpCallsTest(TestCase):
    """A part of the table; the tests of the others are added below."""

    def check_part(self, part):
        with world():
            check_sections(self, ACCEPTED, lambda program: told_by(program, NAMES), part, PARTS)


add_parts(DdpCallsTest, PARTS)

if __name__ == "__main__":
    run_tests()
