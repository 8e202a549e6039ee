"""Tests the benchmark of what recording costs: its tables, and that all of its processes answer."""

from __future__ import annotations

import io
import sys
import unittest
from contextlib import redirect_stdout
from unittest import mock

from suites.selftest.forked_case import ForkedCase
from tools.bench import communication
from tools.bench.communication import OPERATIONS, TURNS
from tools.bench.recorders import RECORDERS


class CommunicationBench(ForkedCase):
    """The table, and the processes that measure."""

    def test_table(self) -> None:
        """Medians, and the median of the differences within a round, not the difference of medians."""
        rows = {"barrier": {"without": [0.5] * 3, "counting": [1.0, 9.0, 2.0], "checker": [4.0, 11.0, 7.0]}}
        expected = ("barrier", "0.5 us", "2.0 us", "7.0 us", "+3.0 us")
        self.assertEqual(communication.table(rows).rows, (expected,))

    def test_table_of_tests(self) -> None:
        """The least numbers, as parts of that of the recorder that counts."""
        found = {"without": [3.0, 1.0, 2.0], "counting": [4.0, 9.0, 4.0], "checker": [5.0, 5.0, 2.0]}
        rows = communication.tests_table(found).rows
        self.assertEqual([row[2] for row in rows], ["-75.0 %", "+0.0 %", "-50.0 %"])

    def test_tests(self) -> None:
        """Each round runs the tests with each recorder, every other one in the other order."""
        with mock.patch.object(communication, "_run", side_effect=range(6)) as run:
            found = communication.tests_measured(["c10d"], rounds=2)
        self.assertEqual([call.args[1] for call in run.call_args_list], [*RECORDERS[::-1], *RECORDERS])
        self.assertEqual(found, {"without": [2, 3], "counting": [1, 4], "checker": [0, 5]})

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
