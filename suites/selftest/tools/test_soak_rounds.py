"""Tests what a soak's rounds are, how each is judged, and what the report says, as tables."""

from __future__ import annotations

import signal
import unittest
from collections import Counter
from dataclasses import replace
from pathlib import Path

from harness.errors import UsageError
from harness.outcomes import Status
from harness.record import TestRecord
from harness.runner.exit_codes import ExitCode
from tools.soak_rounds import LOOPS_WORTH, NICENESS, Failed, Result, Soak, draw, judge, report

SOAK = Soak(seed=5, load=10, names=("selftest", "suites"), shards=3, cores=2)
ROUND = draw(SOAK, 1)
DIRECTORY = Path("kept")


def judged(*records: TestRecord, code: int = ExitCode.OK, cut: bool = False) -> Result:
    """The result of a round with these records."""
    return judge(ROUND, DIRECTORY, records, code, cut=cut)


class DrawTest(unittest.TestCase):
    """``draw``, by which a round follows from the soak and its number."""

    def test_the_same_round_again(self) -> None:
        """A number always has the same round, and another seed has others."""
        rounds = [draw(SOAK, number) for number in range(1, 50)]
        self.assertEqual(rounds, [draw(SOAK, number) for number in range(1, 50)])
        others = [draw(replace(SOAK, seed=6), number) for number in range(1, 50)]
        self.assertFalse(set(rounds) & set(others))

    def test_every_part_has_its_turn(self) -> None:
        """Each shard of each name comes once in every six rounds, in an order of its own each time."""
        parts = [(drawn.name, drawn.shard) for drawn in (draw(SOAK, number) for number in range(1, 61))]
        self.assertEqual(set(Counter(parts).values()), {10})
        turns = [parts[start : start + 6] for start in range(0, 60, 6)]
        for turn in turns:
            self.assertEqual(len(set(turn)), 6)
        self.assertGreater(len({tuple(turn) for turn in turns}), 1)

    def test_every_condition_is_drawn(self) -> None:
        """Rounds differ in everything that may matter, and have fewer busy loops beside a nice run."""
        rounds = [draw(SOAK, number) for number in range(1, 200)]
        self.assertEqual({drawn.jobs for drawn in rounds}, {1, 2, 4})
        self.assertEqual({(drawn.nice, drawn.loops) for drawn in rounds}, {(0, 20), (10, 2), (19, 0)})
        self.assertEqual(
            {(drawn.memory, drawn.disk) for drawn in rounds}, {(a, b) for a in (0, 1) for b in (0, 1)}
        )
        self.assertEqual({drawn.seed is None for drawn in rounds}, {True, False})
        self.assertEqual(set(NICENESS), set(LOOPS_WORTH))

    def test_arguments(self) -> None:
        """A round is a command line of run_tests.py; the standard suites are a run without names."""
        drawn = replace(ROUND, name="selftest", shard="2/3", shuffle=7, jobs=4, seed=None)
        part = ["--shard=2/3", "--shuffle=7", "--jobs=4"]
        self.assertEqual(drawn.arguments(), ["selftest", *part, "--timeout=600"])
        drawn = replace(drawn, name="suites", seed=9)
        self.assertEqual(drawn.arguments(), [*part, "--seed=9", "--timeout=600"])
        drawn = replace(drawn, multiplier=11)
        self.assertEqual(drawn.arguments(), [*part, "--seed=9", "--timeout=600", "--timeout-multiplier=11"])

    def test_deadlines_of_suites_are_multiplied(self) -> None:
        """By how much slower a test is beside the load; self-tests are about deadlines, so theirs stay."""
        for name, multiplier in (("suites", 11), ("c10d", 11), ("selftest", 1), ("selftest.ranks", 1)):
            with self.subTest(name):
                self.assertEqual(draw(replace(SOAK, names=(name,)), 1).multiplier, multiplier)


class JudgeTest(unittest.TestCase):
    """``judge``, on records and exit codes."""

    def test_tests(self) -> None:
        """A test counts as failed however it did not pass, and also where only its first attempt did not."""
        for records, failed in (
            ([TestRecord("a", Status.PASSED)], ()),
            ([TestRecord("a", Status.SKIPPED)], ()),
            ([TestRecord("a", Status.XFAILED)], ()),
            ([TestRecord("a", Status.FAILED, reason="why")], (Failed("a", Status.FAILED, "why"),)),
            ([TestRecord("a", Status.TIMED_OUT)], (Failed("a", Status.TIMED_OUT, ""),)),
            (
                [TestRecord("a", Status.ERROR), TestRecord("a", Status.PASSED, attempt=2, flaky=True)],
                (Failed("a", Status.ERROR, ""),),
            ),
        ):
            with self.subTest(records):
                result = judged(*records)
                self.assertEqual((result.ran, result.failed, result.ok), (("a",), failed, not failed))

    def test_each_repeat_is_a_run(self) -> None:
        """A test that ran twice counts twice."""
        result = judged(TestRecord("a", Status.PASSED), TestRecord("a", Status.FAILED, repeat=2))
        self.assertEqual((result.ran, len(result.failed)), (("a", "a"), 1))

    def test_what_was_interrupted_does_not_count(self) -> None:
        """A test that the end of the soak cut off has neither passed nor failed."""
        result = judged(TestRecord("a", Status.ENDED), code=ExitCode.INTERRUPTED, cut=True)
        self.assertEqual((result.ran, result.ok), ((), True))

    def test_ends_of_a_run(self) -> None:
        """A run that ends by anything but its tests is trouble, unless the soak ended it."""
        for code, cut, trouble in (
            (ExitCode.OK, False, ""),
            (ExitCode.FAILED, False, ""),
            (ExitCode.NOTHING_RAN, False, ""),
            (ExitCode.BROKEN, False, "exit code 3"),
            (ExitCode.INTERRUPTED, False, "exit code 130"),
            (ExitCode.INTERRUPTED, True, ""),
            (-signal.SIGTERM, True, ""),
            (-9, True, "exit code -9"),
        ):
            with self.subTest(code=code, cut=cut):
                result = judged(code=code, cut=cut)
                self.assertEqual((result.trouble, result.ok), (trouble, not trouble))

    def test_refused_arguments(self) -> None:
        """A name that run_tests.py does not know is the user's mistake."""
        with self.assertRaisesRegex(UsageError, "was refused; see kept/output"):
            judged(code=ExitCode.USAGE)


class ReportTest(unittest.TestCase):
    """``report``, on the results of rounds."""

    def test_all_is_well(self) -> None:
        """Without a failure the report is one line of counts."""
        results = [judged(TestRecord("a", Status.PASSED), TestRecord("b", Status.PASSED))] * 3
        self.assertEqual(
            report(SOAK, results),
            ["0 of 2 tests failed at least once (runs of tests: 6, rounds: 3, of which broke: 0)"],
        )

    def test_failures(self) -> None:
        """A test is listed with how often it failed, and for each time when, where and how to repeat it."""
        second = draw(SOAK, 2)
        results = [
            judged(TestRecord("a", Status.PASSED), TestRecord("b", Status.FAILED, reason="one")),
            judge(
                second,
                Path("other"),
                [
                    TestRecord("a", Status.CRASHED, reason="two"),
                    TestRecord("b", Status.FAILED, reason="three"),
                ],
                ExitCode.FAILED,
            ),
        ]
        again = (
            "    again: python tools/soak.py --load 10 --shards 3 --seed 5 --first {} --rounds 1 "
            "--only selftest suites"
        )
        self.assertEqual(
            report(SOAK, results),
            [
                "b: failed in 2 of 2 runs",
                *("    failed: one", f"    {ROUND}", "    files: kept", again.format(1)),
                *("    failed: three", f"    {second}", "    files: other", again.format(2)),
                "a: failed in 1 of 2 runs",
                *("    crashed: two", f"    {second}", "    files: other", again.format(2)),
                "2 of 2 tests failed at least once (runs of tests: 4, rounds: 2, of which broke: 0)",
            ],
        )

    def test_a_run_that_broke(self) -> None:
        """A run that broke is reported, and so is the cut of the last round."""
        lines = report(SOAK, [judged(code=ExitCode.BROKEN), judged(code=ExitCode.INTERRUPTED, cut=True)])
        self.assertEqual(lines[:2], [f"a run of {ROUND.name} broke", "    exit code 3"])
        counts = "runs of tests: 0, rounds: 2, of which broke: 1; the last one was cut short"
        self.assertEqual(lines[-1], f"0 of 0 tests failed at least once ({counts})")


if __name__ == "__main__":
    unittest.main()
