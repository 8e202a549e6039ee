"""What functions of groups, objects and rendezvous do, one by one, as ``c10d_calls.txt`` has it.

Each section of that file has as its name a program of one line, in one process that is rank 7 of 12
(``c10d_call_names.py``); what arrives from other ranks, the program says. A section that is not as torch
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
from suites.accepted_sections import check_sections
from suites.c10d.c10d_call_names import NAMES
from suites.fake_world import world
from suites.told_programs import told_by

ACCEPTED = Path(__file__).with_name("c10d_calls.txt")


@unittest.skipUnless(torch_at_least("2.13"), "the functions are those of torch 2.13")
class C10dCallsTest(TestCase):
    """A program after another."""

    def test_programs(self):
        with world():
            check_sections(self, ACCEPTED, lambda program: told_by(program, NAMES))


if __name__ == "__main__":
    run_tests()
