"""What each of DTensor's rules answers and refuses, called by itself, as ``rules.txt`` has it. No ranks.

Operators reach a rule with arguments that it takes; whether it refuses others, and what it makes of fewer and
of more, only a call of its own shows. A rule that is not as torch has it is shown as it would have to be.
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
from suites.spmd import rules

ACCEPTED = Path(__file__).with_name("rules.txt")
#: Tests that the rules are spread over.
PARTS = 4


@unittest.skipUnless(torch_at_least("2.13"), "the rules are those of torch 2.13")
class RulesTest(TestCase):
    """A part of the table; the tests of the others are added below."""

    def check_part(self, part):
        with world():
            check_sections(self, ACCEPTED, rules.lines_of, part, PARTS)


add_parts(RulesTest, PARTS)

if __name__ == "__main__":
    run_tests()
