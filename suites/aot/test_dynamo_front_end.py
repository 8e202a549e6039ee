"""The suite's tests of functions again, through ``torch.compile``: dynamo traces, and hands the graph on.

Values, gradients, aliasing and errors count. What a graph looks like is the other classes' matter, for dynamo
rewrites what it traces.
"""

from __future__ import annotations

import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import load_tests, run_tests  # noqa: F401  (unittest calls load_tests)
from suites.aot.front_ends import ThroughDynamo
from suites.aot.rerun import rerun
from suites.aot.rerun_tests import BASES, BREAKS, KNOWN, STAY

TestAOTAutogradWithDynamo = rerun(
    "TestAOTAutogradWithDynamo", __name__, BASES, ThroughDynamo, stay=STAY, breaks=BREAKS, known=KNOWN
)

if __name__ == "__main__":
    run_tests()
