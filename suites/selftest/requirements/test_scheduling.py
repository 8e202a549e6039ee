"""Self-tests of harness.requirements.scheduling: which of these requirements skip a test, and where."""

from __future__ import annotations

import unittest

from harness import requirements as r
from suites.selftest.requirements.sample_machines import BARE, CPU, WINDOWS, Row, VerdictTestCase

ROWS = [
    Row(r.slowTest, CPU, "is slow"),
    Row(r.slowTest, CPU, None, environ={"PYTORCH_TEST_WITH_SLOW": "1"}),
    Row(r.slow_test, CPU, "is slow", environ={"PYTORCH_TEST_WITH_SLOW": "0"}),
    Row(r.memory_mb(9000), WINDOWS, "needs 9000 MiB of memory, this machine has 8000 MiB"),
    Row(r.memory_mb(8000), WINDOWS, None),
    Row(r.memory_mb(9000), CPU, None),
    Row(r.timeout(5), BARE, None),
    Row(r.exclusive, BARE, None),
    Row(r.cpu_slots(64), BARE, None),
]


class SchedulingTest(VerdictTestCase):
    """The verdicts of the requirements that inform the scheduler."""

    def test_verdicts(self) -> None:
        """Slow tests skip unless asked for; too much memory skips; the others never skip."""
        self.check(ROWS)


if __name__ == "__main__":
    unittest.main()
