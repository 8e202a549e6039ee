"""What functions and methods of DTensor, FSDP2 and meshes do, one by one, as ``sharded_calls.txt`` has it.

Each section of that file has as its name a program of one line, in one process that is rank 7 of 12
(``sharded_call_names.py``). Models reach few of the cases. A section that is not as torch has it is
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
from suites.fake_world import world
from suites.spmd.sharded_call_names import NAMES
from suites.told_programs import told_by

ACCEPTED = Path(__file__).with_name("sharded_calls.txt")
#: Tests that the programs are spread over.
PARTS = 4


@unittest.skipUnless(torch_at_least("2.13"), "the methods are those of torch 2.13")
class ShardedCallsTest(TestCase):
    """A part of the table; the tests of the others are added below."""

    def check_part(self, part):
        with world():
            check_sections(self, ACCEPTED, lambda program: told_by(program, NAMES), part, PARTS)


add_parts(ShardedCallsTest, PARTS)

if __name__ == "__main__":
    run_tests()
