"""Random calls of stores' clients give what a model of a store gives, but for what is in the book.

One client after another is compared with the model call by call; clients on threads or ranks are checked for
linearizability. What torch is known to get wrong is an entry of ``suites/bugs``, which knows its failures
again; only what is not in the book fails a test. ``HARNESS_EXAMPLES=1000`` looks for more.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import TestCase, environment, load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.fuzzing.player import played, quiet_environment, smallest
from harness.fuzzing.signature import Signature
from harness.fuzzing.stores.draw import drawn
from harness.fuzzing.stores.hunted import StorePrograms
from harness.hypothesis_examples import wanted
from suites.bugs.book import known

#: Programs of a test, which take some hundredths of a second each.
EXAMPLES = 40


class StoreProgramsTest(TestCase):
    """Programs on all kinds of stores, in one process and on two or three ranks."""

    def test_programs(self):
        """Each call gives the model's value, or all of a key's calls have an order in which they do."""
        fuzzer, count = StorePrograms(), wanted(EXAMPLES)
        asked = environment.settings().examples is not None
        seeds = random.SystemRandom() if asked else random.Random(0)
        with quiet_environment():
            for _ in range(count):
                program = drawn(seeds.getrandbits(48))
                failure = played(fuzzer, program)
                if failure is not None and not known(self.signature(fuzzer, program, failure)):
                    self.check_smallest(fuzzer, program, failure)

    def signature(self, fuzzer, program, failure):
        return str(Signature(fuzzer.name, failure, fuzzer.structure(program)))

    def check_smallest(self, fuzzer, program, failure):
        """Fail unless the smallest program that fails in this way is in the book."""
        program = smallest(fuzzer, program, failure)
        signature = self.signature(fuzzer, program, failure)
        self.assertIsNotNone(known(signature), f"not in the book: {signature}\n{fuzzer.script(program)}")


if __name__ == "__main__":
    run_tests()
