"""``ForkedCase``: tests that run in forks of an interpreter with torch, as do programs that they start."""

from __future__ import annotations

import os
import re
import sys
import unittest
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from harness.system import posix
from suites.selftest import warm_python

TREE = Path(__file__).resolve().parents[2]
# Seconds of a test on a busy machine.
PATIENCE_S = 600.0
_INSIDE = "FORKED_CASE"


class ForkedCase(unittest.TestCase):
    """Base class of tests that start interpreters which import torch, and are not about how these start.

    Each test runs by ``python -m unittest`` in a fork of ``warm_python``, where the Python interpreters that
    it starts by ``subprocess`` are forks, too. ``imports`` are modules of torch that they have as well.
    """

    imports: ClassVar[Sequence[str]] = ()

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        """Runs the test there, and says here what became of it."""
        if os.environ.get(_INSIDE):
            # As a worker does, to whom orphans of what the test kills would come else. It reaps none while it
            # waits, so they would stay zombies, and a test that waits for their ends would hang.
            posix.adopt_orphans()
            return super().run(result)
        if type(self).__module__ == "__main__" or result is None:
            return super().run(result)
        result.startTest(self)
        try:
            self._run_there(result)
        finally:
            result.stopTest(self)
        return result

    def _run_there(self, result: unittest.TestResult) -> None:
        done = warm_python.run(
            ("-m", "unittest", "-v", self.id()),
            cwd=TREE,
            env={**os.environ, "PYTHONPATH": str(TREE), _INSIDE: "1"},
            timeout=PATIENCE_S,
            imports=self.imports,
        )
        skipped = re.search(r"\.\.\. skipped (.*)\n(?s:.*)\nOK \(skipped=1\)\n", done.stdout)
        if skipped is not None and done.returncode == 0:
            result.addSkip(self, skipped[1].strip("'\""))
        elif done.returncode == 0:
            result.addSuccess(self)
        else:
            try:
                self.fail(f"in a fork of torch's interpreter:\n{done.stdout}")
            except self.failureException:
                result.addFailure(self, sys.exc_info())
