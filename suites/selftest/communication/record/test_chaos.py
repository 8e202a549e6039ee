"""Tests the delays of ranks: they follow from the seed, find a race, and nothing else."""

from __future__ import annotations

import mmap
import sys
import unittest
from typing import Any

from harness.communication.call_log import LOG_BYTES, CallLog
from harness.communication.record.chaos import (
    LONGEST_S,
    PACES,
    SWITCH_INTERVALS_S,
    Chaos,
    DelayingRecorder,
    chaos_of,
    recorder,
    switching,
)
from harness.communication.record.recorder import Recorder
from suites.selftest.communication import chaos_cases
from suites.selftest.faults.rows import OnForkServer
from suites.selftest.ranks.external.jobs import Job


def seed_of(*paces: float) -> int:
    """The first seed under which ranks 0, 1, ... have these paces."""
    return next(s for s in range(10_000) if tuple(Chaos(s, r).pace for r in range(len(paces))) == paces)


QUICK, SLOW = min(PACES), max(PACES)
# Rank 1 sets the flag long before rank 0 reads it under one seed, and long after under the other.
SET_FIRST, READ_FIRST = seed_of(SLOW, QUICK), seed_of(QUICK, SLOW)


class DelaysTest(unittest.TestCase):
    """``Chaos``: a function of the seed, the rank and the moment."""

    def delays(self, seed: int, rank: int) -> list[float]:
        return [Chaos(seed, rank).delay_s(moment) for moment in range(200)]

    def test_same_again(self) -> None:
        self.assertEqual(self.delays(READ_FIRST, 1), self.delays(READ_FIRST, 1))

    def test_seeds_and_ranks_differ(self) -> None:
        slow = [chaos for s in range(40) for r in range(3) if (chaos := Chaos(s, r)).pace == SLOW]
        self.assertGreater(len(slow), 10)
        self.assertEqual(len({tuple(self.delays(each.seed, each.rank)) for each in slow}), len(slow))
        intervals = {each.switch_interval_s for each in slow}
        self.assertGreater(len(intervals), 2)
        self.assertLessEqual(intervals, {*SWITCH_INTERVALS_S})

    def test_bounds(self) -> None:
        """About half of the moments have a delay, up to the pace's longest; a quick rank has none."""
        delays = self.delays(READ_FIRST, 1)
        self.assertTrue(all(0 <= delay <= LONGEST_S * SLOW for delay in delays))
        self.assertGreater(max(delays), 0.9 * LONGEST_S * SLOW)
        self.assertTrue(50 < delays.count(0) < 150, delays.count(0))
        self.assertEqual({*self.delays(READ_FIRST, 0)}, {0})

    def test_environment(self) -> None:
        table: tuple[tuple[dict[str, str], Chaos | None], ...] = (
            ({}, None),
            ({"HARNESS_CHAOS": " "}, None),
            ({"HARNESS_CHAOS": "0"}, Chaos(0, 3)),
        )
        for environ, chaos in table:
            with self.subTest(environ):
                self.assertEqual(chaos_of(environ, 3), chaos)

    def test_off(self) -> None:
        """Without chaos calls are recorded by what they always are, which asks for no delay."""
        log = CallLog(mmap.mmap(-1, LOG_BYTES))
        self.assertIs(type(recorder(log, lambda group: (), None)), Recorder)
        self.assertIs(type(recorder(log, lambda group: (), Chaos(1, 0))), DelayingRecorder)

    def test_switches(self) -> None:
        before = sys.getswitchinterval()
        chaos = next(each for s in range(99) if (each := Chaos(s, 0)).switch_interval_s == 1e-3)
        with switching(chaos):
            self.assertAlmostEqual(sys.getswitchinterval(), 1e-3)
        self.assertEqual(sys.getswitchinterval(), before)


class RaceTest(OnForkServer):
    """A race passes under one seed and fails under another, each time."""

    def check_race(self, case: Any, **environ: str) -> None:
        for seed, verdict in ((SET_FIRST, "pass"), (READ_FIRST, "FAIL")) * 2:
            with self.subTest(seed=seed):
                played = self.play(case, "test_race", HARNESS_CHAOS=str(seed), **environ)
                self.assertEqual(played.verdict, verdict, played.text)
                if verdict == "FAIL":
                    self.assertIn(f"reproduce: HARNESS_CHAOS={seed} python -m unittest", played.text)

    def test_fresh_ranks(self) -> None:
        self.check_race(chaos_cases.FlagTest)

    def test_pooled_ranks(self) -> None:
        """Ranks that are kept are delayed by the seed of each test."""
        self.check_race(chaos_cases.FlagTest, HARNESS_RANKS="pooled")

    def test_threads(self) -> None:
        self.check_race(chaos_cases.ThreadsTest)

    def test_no_race(self) -> None:
        """A test that waits for what it needs passes, whoever is slow."""
        for seed in (SET_FIRST, READ_FIRST, seed_of(SLOW, SLOW), seed_of(QUICK, QUICK)):
            with self.subTest(seed=seed):
                played = self.play(chaos_cases.FlagTest, "test_right", HARNESS_CHAOS=str(seed))
                self.assertEqual(played.verdict, "pass", played.text)


class LaunchedTest(unittest.TestCase):
    """Ranks that a launcher has started."""

    def test_race_and_no_race(self) -> None:
        """Each is delayed by the variable that it inherits."""
        names = ("FlagTest.test_race", "FlagTest.test_right")
        for seed, verdict in ((SET_FIRST, "pass"), (READ_FIRST, "FAIL")):
            job = Job(names, names, module=chaos_cases.__name__, HARNESS_CHAOS=str(seed))
            self.addCleanup(job.close)
            for rank in range(2):
                with self.subTest(seed=seed, rank=rank):
                    found = job.verdicts(rank)
                    self.assertEqual([found[name][0] for name in names], [verdict, "pass"], found)


if __name__ == "__main__":
    unittest.main()
