"""The suite's tests of functions again, through ``torch.compile``: dynamo traces, and hands the graph on.

Values, gradients, aliasing and errors count. What a graph looks like is the other classes' matter, for dynamo
rewrites what it traces. The class with the cache behind dynamo has the same tests, first without a hit: the
standard run has here those that do not get through the cache, ``--slow`` all.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.front_ends import ThroughDynamo
from suites.aot.rerun import rerun
from suites.aot.rerun_tests import BASES, BREAKS, KNOWN, PAST_THE_CACHE, STAY

TestAOTAutogradWithDynamo = rerun(
    "TestAOTAutogradWithDynamo",
    __name__,
    BASES,
    ThroughDynamo,
    stay=STAY,
    breaks=BREAKS,
    known=KNOWN,
    standard=PAST_THE_CACHE,
)

if __name__ == "__main__":
    run_tests()
