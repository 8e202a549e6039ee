"""Tests how long the controller lets a test run."""

from __future__ import annotations

import unittest
from dataclasses import replace
from unittest import mock

from harness.ranks.deadlines import START_WAIT_S
from harness.runner.scheduling.time_limits import (
    LONGEST_UPSTREAM_S,
    WATCHDOG_SLACK_S,
    TimeLimits,
    time_limits,
)
from harness.runner.scheduling.unit import Demand, of_id
from harness.settings import Settings
from harness.system import processors

UNIT = of_id("m.T.test_x", "m")


class OfUnitTest(unittest.TestCase):
    """``TimeLimits.of``: one test's limit."""

    def test_table(self) -> None:
        """A test's own deadline wins, and only a test that a supervisor watches gets the margin."""
        for timeout_s, own_s, supervised, limit_s in (
            (100.0, None, False, 100.0),
            (100.0, None, True, 120.0),
            (100.0, 7.0, False, 7.0),
            (100.0, 7.0, True, 27.0),
            (None, 7.0, True, None),
        ):
            with self.subTest(timeout_s=timeout_s, own_s=own_s, supervised=supervised):
                unit = replace(UNIT, timeout_s=own_s, supervised=supervised)
                self.assertEqual(TimeLimits(timeout_s, margin_s=20.0).of(unit), limit_s)

    def test_many_ranks(self) -> None:
        """The margin grows with the ranks, as the supervisor's own waits do."""
        unit = replace(UNIT, supervised=True, demand=Demand(ranks=256))
        with mock.patch.object(processors, "available", return_value=4):
            self.assertEqual(TimeLimits(100.0, margin_s=20.0).of(unit), 180.0)

    def test_multiplier(self) -> None:
        """Deadlines are multiplied, whoever sets them; the margin has been, as far as it has to be."""
        limits = TimeLimits(100.0, margin_s=20.0, multiplier=3.0)
        self.assertEqual(limits.of(replace(UNIT, timeout_s=None, supervised=False)), 300.0)
        self.assertEqual(limits.of(replace(UNIT, timeout_s=7.0, supervised=True)), 41.0)


class OfRunTest(unittest.TestCase):
    """``time_limits``: the limits of a run."""

    def test_timeout(self) -> None:
        """A debugger suspends the limit, and upstream's longest deadline is the least of a drop-in run."""
        for timeout_s, upstream, debugger, expected_s in (
            (60.0, False, False, 60.0),
            (60.0, True, False, LONGEST_UPSTREAM_S),
            (900.0, True, False, 900.0),
            (60.0, False, True, None),
        ):
            with self.subTest(timeout_s=timeout_s, upstream=upstream, debugger=debugger):
                settings = Settings(timeout_s=timeout_s)
                limits = time_limits(settings, upstream_deadlines=upstream, debugger=debugger)
                self.assertEqual(limits.timeout_s, expected_s)

    def test_margin(self) -> None:
        """All that a supervisor may wait for passes before the controller ends its worker."""
        for timeout_s, start_s in ((120.0, START_WAIT_S), (7.0, 7.0)):
            with self.subTest(timeout_s=timeout_s):
                settings = Settings(timeout_s=timeout_s, grace_s=1.0, skip_grace_s=50.0, exit_grace_s=10.0)
                limits = time_limits(settings, upstream_deadlines=False, debugger=False)
                self.assertEqual(limits.margin_s, start_s + 61.0 + WATCHDOG_SLACK_S)
                slower = replace(settings, timeout_multiplier=4.0)
                limits = time_limits(slower, upstream_deadlines=False, debugger=False)
                self.assertEqual(limits.multiplier, 4.0)
                self.assertEqual(limits.margin_s, 4 * start_s + 61.0 + WATCHDOG_SLACK_S)


if __name__ == "__main__":
    unittest.main()
