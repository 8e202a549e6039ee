"""Random calls of stores' clients give what a model of a store gives, but for what is in the book.

One client after another is compared with the model call by call; clients on threads or ranks are checked for
linearizability. What torch is known to get wrong is an entry of ``suites/bugs``, which knows its failures
again; only what is not in the book fails a test. ``HARNESS_EXAMPLES=1000`` looks for more.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.fuzzing.stores.draw import drawn
from harness.fuzzing.stores.hunted import StorePrograms
from suites.bugs.random_programs import RandomProgramsCase

#: Programs of a test, which take some hundredths of a second each.
EXAMPLES = 40


class StoreProgramsTest(RandomProgramsCase):
    """Programs on all kinds of stores, in one process and on two or three ranks."""

    def test_programs(self):
        """Each call gives the model's value, or all of a key's calls have an order in which they do."""
        self.check_programs(StorePrograms(), drawn, EXAMPLES)


if __name__ == "__main__":
    run_tests()
