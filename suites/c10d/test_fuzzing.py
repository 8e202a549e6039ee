"""Random programs of collectives and messages, beside a numpy interpreter of them.

What torch is known to get wrong is an entry of ``suites/bugs``; only what is not in the book fails a test. A
bounded number here, the same each time. For open-ended fuzzing::

    python run_tests.py c10d.test_fuzzing --examples 100000 --timeout 86400
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.fuzzing import ProgramTestCase, fuzz, programs
from harness.fuzzing.backend import backend_of
from harness.fuzzing.collectives import CollectivePrograms
from harness.fuzzing.signature import of_outcome
from harness.targets import Capability, current, needs
from suites.bugs.book import known


def of_target(world_size):
    """Return the programs of what the target declares, as hypothesis draws them."""
    return programs(world_size, backend=backend_of(current()))


@needs(Capability.SUB_GROUPS, Capability.ASYNCHRONOUS)
class OnTarget:
    """Programs on the target's groups."""

    @classmethod
    def backend_str(cls):
        return current().backend

    @classmethod
    def device_type(cls):
        return current().device_type

    def is_known(self, program, problem):
        """Ask the book, which knows failures by their signature."""
        signature = CollectivePrograms().signature(program, of_outcome(problem.outcome))
        return known(str(signature)) is not None

    @fuzz(examples=30, strategy=of_target)
    def test_random_programs(self, program):
        self.run_program(program)


class TwoRanksTest(OnTarget, ProgramTestCase):
    """On two ranks, in one group."""

    world_size = 2


class ThreeRanksTest(OnTarget, ProgramTestCase):
    """On three ranks, in four groups."""

    world_size = 3


class FourRanksTest(OnTarget, ProgramTestCase):
    """On four ranks, in eleven groups, of which fewer programs would leave most out."""

    world_size = 4

    @fuzz(examples=60, strategy=of_target)
    def test_random_programs(self, program):
        self.run_program(program)


if __name__ == "__main__":
    run_tests()
