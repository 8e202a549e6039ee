"""What FSDP1 and FSDP2 keep and ask of their device in each part of a step, as ``steps.txt`` has it.

Each section of that file has as its name a program of one line, in one process (``step_programs.py``): a
model with some options, and its steps. Numbers alone do not show most of it. A section that is not as torch
has it is shown as it would have to be.
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
from suites.fsdp.step_programs import answers

ACCEPTED = Path(__file__).with_name("steps.txt")
#: Tests that the programs are spread over.
PARTS = 3


@unittest.skipUnless(torch_at_least("2.13"), "the fields are those of torch 2.13")
class StepsTest(TestCase):
    """A part of the table; the tests of the others are added below."""

    def check_part(self, part):
        with world():
            check_sections(self, ACCEPTED, answers(), part, PARTS)


add_parts(StepsTest, PARTS)

if __name__ == "__main__":
    run_tests()
