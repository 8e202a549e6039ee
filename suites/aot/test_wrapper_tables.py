"""What AOTAutograd notes of programs and writes around their graphs, as ``wrappers.txt`` has it.

Values are right, too, where a wrapper copies more than it has to, or takes back less. A section is a program
with its inputs, or the source of a wrapper, by which it is named there. One that is not as torch has it is
shown as it would have to be.
"""

from __future__ import annotations

import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import add_parts
from suites.aot import wrappers
from suites.aot.table_case import TableCase

#: Tests that the programs are spread over.
PARTS = 6


@unittest.skipUnless(torch_at_least("2.13"), "the wrappers are those of torch 2.13")
class WrapperTablesTest(TableCase):
    """A part of the table; the tests of the others are added below."""

    accepted = Path(__file__).with_name("wrappers.txt")

    def check_part(self, part):
        sources = {}
        for program, inputs in list(wrappers.chosen())[part::PARTS]:
            self.check(f"{program}, {inputs}", wrappers.lines_of(program, inputs, sources))
        for name, source in sources.items():
            self.check(f"wrapper {name}", source)


add_parts(WrapperTablesTest, PARTS)

if __name__ == "__main__":
    run_tests()
