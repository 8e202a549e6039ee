"""Random modules trained with FSDP do what one process does that shards nothing, but for what is in the book.

What torch is known to get wrong is an entry of ``suites/bugs``, which knows its failures again; only what is
not in the book fails a test. ``HARNESS_EXAMPLES=1000`` looks for more.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.fuzzing.fsdp import draw as fsdp_draw
from harness.fuzzing.fsdp.hunted import FsdpPrograms
from harness.fuzzing.fsdp1 import draw as fsdp1_draw
from harness.fuzzing.fsdp1.hunted import Fsdp1Programs
from suites.bugs.random_programs import RandomProgramsCase
from suites.c10d.base import gloo_only

#: Programs of a test, which take some tenths of a second each.
EXAMPLES = 12
RANKS = 2


@gloo_only
class FsdpProgramsTest(RandomProgramsCase):
    """Programs on two ranks: gradients, parameters and buffers after each step are the reference's."""

    def test_programs(self):
        self.check_programs(FsdpPrograms(), lambda seed: fsdp_draw.drawn(seed, RANKS), EXAMPLES)

    def test_fsdp1_programs(self):
        self.check_programs(Fsdp1Programs(), lambda seed: fsdp1_draw.drawn(seed, RANKS), EXAMPLES)


if __name__ == "__main__":
    run_tests()
