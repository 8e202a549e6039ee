"""Tests runs in control groups that have less memory, or fewer processes, than a test takes."""

from __future__ import annotations

import functools
import sys
import unittest
from typing import Any

from harness import instantiate_parametrized_tests, parametrize
from suites.selftest.environments.rows import HERE, EnvironmentCase, Row, each
from suites.selftest.environments.test_limits import refused


def grouped(name: str, controller: str, limit: str, **fields: Any) -> Row:
    """Returns the row of a control group with a limit."""
    command = (sys.executable, str(HERE / "in_group.py"), controller, limit)
    return Row(name, prefix=command, why_not=functools.partial(refused, *command), **fields)


ROWS = (
    grouped(
        "a rank that needs more than ``memory.max``",
        "memory",
        str(256 << 20),
        sample="sample_memory",
        says="crashed: signal SIGKILL without an outcome (meanwhile the kernel killed 1 process for lack of "
        "memory; the limit of its control group is 256 MiB)",
        code=1,
    ),
    grouped("enough of ``memory.max``", "memory", str(256 << 20)),
    grouped(
        "``pids.max`` of 3",
        "pids",
        "3",
        by=("unittest",),
        says="could not be started: [Errno 11] Resource temporarily unavailable",
    ),
    grouped("enough of ``pids.max``", "pids", "20"),
)


class ControlGroupsTest(EnvironmentCase):
    """Limits of control groups."""

    @parametrize("row", each(ROWS))
    def test_row(self, row: Row) -> None:
        """The run comes to what the row says."""
        self.run_row(row)


instantiate_parametrized_tests(ControlGroupsTest)

if __name__ == "__main__":
    unittest.main()
