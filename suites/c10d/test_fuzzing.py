"""Random programs of collectives and messages, beside a numpy interpreter of them.

A bounded number here, the same each time. For open-ended fuzzing::

    python run_tests.py c10d.test_fuzzing --examples 100000 --timeout 86400
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from harness.fuzzing import ProgramTestCase, fuzz


class OnGloo:
    """Programs on gloo's groups, on the CPU."""

    @classmethod
    def backend_str(cls):
        return "gloo"

    @classmethod
    def device_type(cls):
        return "cpu"

    @fuzz(examples=60)
    def test_random_programs(self, program):
        self.run_program(program)


class TwoRanksTest(OnGloo, ProgramTestCase):
    """On two ranks, in one group."""

    world_size = 2


class ThreeRanksTest(OnGloo, ProgramTestCase):
    """On three ranks, in four groups."""

    world_size = 3


class FourRanksTest(OnGloo, ProgramTestCase):
    """On four ranks, in eleven groups."""

    world_size = 4


if __name__ == "__main__":
    run_tests()
