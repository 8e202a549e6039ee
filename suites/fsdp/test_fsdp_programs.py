"""Random modules trained with FSDP do what one process does that shards nothing, but for what is in the book.

What torch is known to get wrong is an entry of ``suites/bugs``, which knows its failures again; only what is
not in the book fails a test. ``HARNESS_EXAMPLES=1000`` looks for more.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import TestCase, environment, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.fuzzing.fsdp.draw import drawn
from harness.fuzzing.fsdp.hunted import FsdpPrograms
from harness.fuzzing.hunted import Rejected
from harness.fuzzing.player import played, quiet_environment, smallest
from harness.fuzzing.signature import Signature
from harness.hypothesis_examples import wanted
from suites.bugs.book import known
from suites.c10d.base import gloo_only

#: Programs of a test, which take some tenths of a second each.
EXAMPLES = 12
RANKS = 2


@gloo_only
class FsdpProgramsTest(TestCase):
    """Programs on two ranks, which are replaced after one that fails."""

    def test_programs(self):
        """Gradients, parameters and buffers after each step are the reference's."""
        fuzzer, count, rejected = FsdpPrograms(), wanted(EXAMPLES), 0
        asked = environment.settings().examples is not None
        seeds = random.SystemRandom() if asked else random.Random(0)
        with quiet_environment():
            for _ in range(count):
                program = drawn(seeds.getrandbits(48), RANKS)
                try:
                    failure = played(fuzzer, program)
                except Rejected:
                    rejected += 1
                    continue
                if failure is not None and not known(self.signature(fuzzer, program, failure)):
                    self.check_smallest(fuzzer, program, failure)
        self.assertLess(rejected, count / 2)

    def signature(self, fuzzer, program, failure):
        return str(Signature(fuzzer.name, failure, fuzzer.structure(program)))

    def check_smallest(self, fuzzer, program, failure):
        """Fail unless the smallest program that fails in this way is in the book."""
        program = smallest(fuzzer, program, failure)
        signature = self.signature(fuzzer, program, failure)
        self.assertIsNotNone(known(signature), f"not in the book: {signature}\n{fuzzer.script(program)}")


if __name__ == "__main__":
    run_tests()
