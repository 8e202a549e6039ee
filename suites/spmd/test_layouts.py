"""How DTensor lays out what operators give, and what it moves for it: as ``layouts.txt`` has it. No ranks.

Numbers are right, too, where everything is gathered first; that it is not is what the table says. A line that
is not as torch has it is shown as it would have to be.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import TestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import add_parts
from suites.spmd.layouts import Operator, meshes

ACCEPTED = Path(__file__).with_name("layouts.txt")
#: Tests that the table is spread over.
PARTS = 10


def accepted():
    """The operators of the table, each with what is wanted of it."""
    lines = ACCEPTED.read_text(encoding="utf-8").splitlines()
    return [(lines[at], lines[at + 1].strip()) for at in range(0, len(lines), 2)]


@unittest.skipUnless(torch_at_least("2.13"), "the layouts are those of torch 2.13")
class LayoutsTest(TestCase):
    """A part of the table; the tests of the others are added below."""

    def check_part(self, part):
        with meshes() as of:
            for text, wanted in accepted()[part::PARTS]:
                with self.subTest(text):
                    found = Operator(text).row(of)
                    self.assertEqual(found.split(" "), wanted.split(" "), f"{text}\n    {found}")


add_parts(LayoutsTest, PARTS)

if __name__ == "__main__":
    run_tests()
