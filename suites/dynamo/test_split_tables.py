"""What DDPOptimizer makes of models with parameters of odd sizes, as ``split_tables.txt`` has it.

Results are right, too, where a model is cut elsewhere, or where a piece has lost what is known of its inputs.
A section is a model with the limits of a bucket and of the first one; one that is not as torch has it is
shown as it would have to be.
"""

from __future__ import annotations

import logging
import sys
import unittest
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import DynamoTestCase, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.releases import torch_at_least
from suites.accepted_sections import accepted_sections, add_parts, check_section
from suites.dynamo import split_tables

ACCEPTED = Path(__file__).with_name("split_tables.txt")
#: Tests that the models are spread over.
PARTS = 3


@unittest.skipUnless(torch_at_least("2.13"), "the pieces are those of torch 2.13")
class SplitTablesTest(DynamoTestCase):
    """A part of the table; the tests of the others are added below."""

    def setUp(self):
        super().setUp()
        warns = logging.getLogger("torch._dynamo.backends.distributed")  # of each bucket that it extends
        self.addCleanup(warns.setLevel, warns.level)
        warns.setLevel(logging.ERROR)

    def check_part(self, part):
        sections = accepted_sections(ACCEPTED)
        for model, limit, first in split_tables.chosen()[part::PARTS]:
            found = split_tables.lines_of(model, limit, first)
            check_section(self, sections, f"{model}, {limit}, {first}", found)


add_parts(SplitTablesTest, PARTS)

if __name__ == "__main__":
    run_tests()
