"""Runs the conformance suites; ``python run_tests.py --help`` lists the options."""

import os
import sys

# Python does not put a script's directory on the path under -P, -I or PYTHONSAFEPATH.
TREE = os.path.dirname(os.path.abspath(__file__))
if TREE not in sys.path:
    sys.path.insert(0, TREE)

from harness.runner.cli import main  # noqa: E402 - found by the path above

if __name__ == "__main__":
    raise SystemExit(main())
