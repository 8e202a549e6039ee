"""Every bug of the book is seen in the known way: its script runs in a new process, and fails as it says.

A test that fails because the script passes says that torch is mended: give the entry ``before:``, the release
that is right, and what leaves the bug out elsewhere goes. In a release that is right the script has to pass.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

if __package__ in (None, ""):  # run as a script: its own directory is no place to import from
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from harness import (  # noqa: F401  (unittest calls load_tests)
    TestCase,
    instantiate_parametrized_tests,
    load_tests,
    parametrize,
    run_tests,
)
from harness.fuzzing.fresh_process import START_S
from harness.requirements import timeout
from suites.bugs.book import entries
from suites.bugs.scripts import failure_of

# Seconds for a script beside the start of its process. One that is known to hang takes all of them.
LIMIT_S = 4.0


@instantiate_parametrized_tests
class BookTest(TestCase):
    """The scripts of all entries."""

    @timeout(4 * START_S)
    @parametrize("name", [entry.name for entry in entries()])
    def test_fails_as_known(self, name):
        (entry,) = (each for each in entries() if each.name == name)
        hangs = entry.kind.value == "hangs"
        failure, said = failure_of(entry, LIMIT_S if hangs else 2 * START_S)
        if not entry.is_here():
            self.assertIsNone(failure, f"this release was right, and is not:\n{said}")
            return
        self.assertIsNotNone(failure, "torch is mended: say from which release on, in a line `before:`")
        self.assertIsNotNone(re.search(entry.fails, str(failure)), f"it fails otherwise: {failure}\n{said}")


if __name__ == "__main__":
    run_tests()
