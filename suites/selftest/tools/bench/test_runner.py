"""Tests the benchmark of the runner on small runs: the rows of its tables, not their seconds."""

from __future__ import annotations

import contextlib
import io
import unittest
from unittest import mock

from suites.selftest.forked_case import ForkedCase
from tools.bench import runner

# A module of the suites that needs no ranks.
SMALL = ("c10d.test_reference",)


class RunnerBench(ForkedCase):
    """The tables of the benchmark."""

    def test_a_row_for_each_number_of_jobs(self) -> None:
        with mock.patch.object(runner, "JOBS", (1, 2)):
            table = runner.by_jobs(SMALL)
        self.assertEqual([row[0] for row in table.rows], ["1", "2"])
        self.assertEqual(len({row[1] for row in table.rows}), 1)

    def test_shards_add_up(self) -> None:
        with mock.patch.object(runner, "SHARDS", (1, 2)):
            whole, halves = runner.by_shards(SMALL).rows
        self.assertEqual(sum(int(n) for n in halves[1].split(" + ")), int(whole[1]))
        self.assertEqual((whole[3], whole[4]), ("1.00", "1.00"))

    def test_trivial_tests_are_all_run(self) -> None:
        with mock.patch.object(runner, "TRIVIAL_TESTS", (3, 501)):
            self.assertEqual([row[0] for row in runner.overhead(()).rows], ["3", "501"])

    def test_a_run_that_fails_is_no_measurement(self) -> None:
        complaint = io.StringIO()
        with contextlib.redirect_stderr(complaint):
            self.assertEqual(runner.main(["no_such_suite", "--only", "jobs"]), 1)
        self.assertIn("ended with 2", complaint.getvalue())


if __name__ == "__main__":
    unittest.main()
