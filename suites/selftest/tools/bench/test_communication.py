"""Tests the benchmark of what recording costs: its tables, and that all of its processes answer."""

from __future__ import annotations

import io
import random
import statistics
import sys
import unittest
from contextlib import redirect_stderr, redirect_stdout
from unittest import mock

from suites.selftest.forked_case import ForkedCase
from tools.bench import communication
from tools.bench.communication import OPERATIONS, TURNS, Spent
from tools.bench.recorders import CHECKER, COUNTING, RECORDERS


class CommunicationBench(ForkedCase):
    """The table, and the processes that measure."""

    def test_table(self) -> None:
        """Medians, and the median of the differences within a round, not the difference of medians."""
        rows = {"barrier": {"without": [0.5] * 3, "counting": [1.0, 9.0, 2.0], "checker": [4.0, 11.0, 7.0]}}
        expected = ("barrier", "0.5 us", "2.0 us", "7.0 us", "+3.0 us")
        self.assertEqual(communication.table(rows).rows, (expected,))

    def test_table_of_tests(self) -> None:
        """Medians of the runs and of the rounds' percentages, and of how many rounds these need."""
        more = (1.01, 1.02, 1.03, 1.05)
        found = [
            (Spent(s, 10.0), Spent(s * by, 9.0)) for s, by in zip((1.0, 3.0, 2.0, 9.0), more, strict=True)
        ]
        processor, clock = communication.tests_table(found).rows
        self.assertEqual(processor, ("processor time", "2.50 s", "2.56 s", "+2.5 %", "1.9 %", "14"))
        self.assertEqual(clock, ("by the clock", "10.00 s", "9.00 s", "-10.0 %", "0.0 %", "2"))

    def test_uncertainty(self) -> None:
        """Nineteen of twenty medians of normal numbers are within it, if four out of five are not."""
        draw, within = random.Random(7), [0, 0]
        for _ in range(300):
            numbers = [draw.gauss(3.0, 1.5) for _ in range(25)]
            off, allowed = abs(statistics.median(numbers) - 3.0), communication.uncertainty(numbers)
            within = [within[0] + (off <= allowed), within[1] + (off <= allowed / 2)]
        self.assertTrue(265 < within[0] < 297 and within[1] < 230, within)

    def test_one_round(self) -> None:
        """One round of tests would claim that chance moves nothing."""
        with redirect_stderr(io.StringIO()) as said, self.assertRaises(SystemExit):
            communication.main(["--tests", "c10d", "--rounds", "1"])
        self.assertIn("one round of tests", said.getvalue())

    def test_tests(self) -> None:
        """Each round runs the tests with both recorders, every other one in the other order."""
        runs = [Spent(number, number) for number in range(4)]
        with (
            mock.patch.object(communication, "_run", side_effect=runs) as run,
            redirect_stderr(io.StringIO()) as said,
        ):
            found = communication.tests_measured(["c10d"], rounds=2)
        self.assertEqual(
            [call.args[1] for call in run.call_args_list], [CHECKER, COUNTING, COUNTING, CHECKER]
        )
        self.assertEqual(found, [(runs[1], runs[0]), (runs[2], runs[3])])
        rounds = [
            "round 1: counting 1.00 s, checker 0.00 s of processor time",
            "round 2: counting 2.00 s, checker 3.00 s of processor time",
        ]
        self.assertEqual(said.getvalue().splitlines(), rounds)

    def test_tests_that_fail(self) -> None:
        """What they printed last is told, since the run itself is gone."""
        with self.assertRaisesRegex(SystemExit, "(?s)nothing_like_it.*exit code 2 by the recorder 'checker'"):
            communication._run(["c10d.nothing_like_it"], CHECKER)

    def test_measured(self) -> None:
        """Every operation has a number of each kind of process in each round, the least of its turns."""
        found = communication.measured(OPERATIONS, rounds=1, calls=3)
        self.assertEqual(list(found), list(OPERATIONS))
        for by_mode in found.values():
            self.assertEqual(
                {mode: len(numbers) for mode, numbers in by_mode.items()}, dict.fromkeys(RECORDERS, 1)
            )
            self.assertTrue(all(number > 0 for numbers in by_mode.values() for number in numbers))

    def test_least(self) -> None:
        """Each recorder has its turns in between those of the others, and the least of them counts."""
        times = iter(time for turn in range(TURNS) for time in (5.0 - turn % 3, 7.0 - turn % 2, 9.0))
        turns = mock.patch.object(communication, "_turn", side_effect=lambda *_: next(times))
        asked = mock.patch.object(sys, "stdin", io.StringIO("barrier\nall_reduce\n"))
        with turns, asked, redirect_stdout(io.StringIO()) as said, self.assertRaises(StopIteration):
            communication.serve(calls=3)
        self.assertEqual(said.getvalue(), "3.0 6.0 9.0\n")

    def test_processes(self) -> None:
        """Each round has a new process."""
        process = mock.MagicMock()
        started = mock.patch.object(communication, "_started", return_value=process)
        asked = mock.patch.object(communication, "_asked", side_effect=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        with started as processes, asked:
            found = communication.measured(["barrier"], rounds=2, calls=3)
        self.assertEqual(
            found, {"barrier": {"without": [1.0, 4.0], "counting": [2.0, 5.0], "checker": [3.0, 6.0]}}
        )
        self.assertEqual(processes.call_count, 2)


if __name__ == "__main__":
    unittest.main()
