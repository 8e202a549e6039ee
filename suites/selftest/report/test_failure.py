"""Self-tests of harness.report.failure: the full text of each kind of failure."""

from __future__ import annotations

import unittest
from dataclasses import replace

from harness.outcomes import ErrorInfo, RankOutcome, Status, SubtestOutcome, TestOutcome
from harness.rank_merging import merge
from harness.report.failure import failure_text
from suites.selftest.report.samples import (
    ASSERTION,
    LOST_PEER,
    TEST_ID,
    TRACEBACK,
    call,
    failing,
    stack,
    waiting,
)

RERUN = f"python run_tests.py --seed 7 {TEST_ID}"
TRACE = "\n".join("  " + line for line in TRACEBACK.splitlines())


def text(*ranks: RankOutcome, rerun: str = RERUN, lines: int = 20, outcome: TestOutcome | None = None) -> str:
    return failure_text(TEST_ID, outcome or merge(ranks), rerun=rerun, seed=7, max_output_lines=lines)


class OrdinaryFailureTest(unittest.TestCase):
    """Ranks that raise exceptions."""

    def test_whole_text_is_ten_lines(self) -> None:
        said = text(waiting(0), failing(1), waiting(2), waiting(3))
        self.assertEqual(
            said,
            f"{TEST_ID}: failed (world size 4) after 0.40 s\n"
            "cause: rank 1 failed: AssertionError: 3 != 4\n"
            f"{TRACE}\n"
            "meanwhile: ranks 0, 2, 3 wait in all_reduce #5 of group 0 (test_sum.py:21 in test_sum)\n"
            "log of rank 1: /tmp/run/rank1.log (and of ranks 0, 2, 3 beside it)\n"
            f"reproduce: {RERUN}",
        )
        self.assertLessEqual(len(said.splitlines()), 10)

    def test_equal_tracebacks_once(self) -> None:
        said = text(*(failing(r, order=r) for r in range(4)))
        self.assertIn("cause: rank 0 failed: AssertionError: 3 != 4 (the same on ranks 0-3)", said)
        self.assertEqual(said.count("Traceback"), 1)
        self.assertNotIn("meanwhile", said)

    def test_error_without_frames(self) -> None:
        """An error of one line, of which there are no frames, stands in the line of the cause alone."""
        for message, times in (("write 4", 1), ("write 4\nor 5", 2)):
            with self.subTest(message):
                error = ErrorInfo("UsageError", message, f"UsageError: {message}\n")
                said = text(*(failing(r, order=r, error=error) for r in range(2)))
                self.assertIn("cause: rank 0 raised: UsageError: write 4 (the same on ranks 0, 1)", said)
                self.assertEqual(said.count("UsageError"), times, said)

    def test_other_errors_are_shortened(self) -> None:
        said = text(failing(0), *(failing(r, order=r, error=LOST_PEER) for r in (1, 2)))
        self.assertIn(
            "also: ranks 1, 2: RuntimeError: [gloo] Connection closed by peer [127.0.0.1]:1"
            " (test_sum.py:21 in test_sum)",
            said,
        )
        self.assertEqual(said.count("Traceback"), 1)

    def test_long_message_of_another_error_is_cut(self) -> None:
        error = replace(LOST_PEER, message="x" * 500)
        also = next(
            x for x in text(failing(0), failing(1, order=1, error=error)).splitlines() if "also: " in x
        )
        self.assertRegex(also, r"^also: rank 1: RuntimeError: x+\.\.\. \(test_sum.py:21 in test_sum\)$")
        self.assertLess(len(also), 200)

    def test_many_different_errors_are_cut(self) -> None:
        ranks = [failing(r, order=r, error=ErrorInfo("ValueError", f"no {r}", f"tb {r}")) for r in range(32)]
        said = text(*ranks)
        self.assertIn("... and 27 other errors", said)
        self.assertLess(len(said.splitlines()), 15)


class CrashTest(unittest.TestCase):
    """The text of a test whose rank crashes."""

    def test_crash_is_the_cause_and_its_output_is_shown(self) -> None:
        crash = RankOutcome(
            1, Status.CRASHED, exit_code=-11, output="\n".join(f"line {n}" for n in range(50))
        )
        said = text(failing(0, error=LOST_PEER), replace(crash, order=3), lines=2)
        self.assertIn("cause: rank 1 crashed: signal SIGSEGV without an outcome\n", said)
        self.assertIn("also: rank 0: RuntimeError", said)
        self.assertIn("output of rank 1, last 2 of 50 lines:\n  line 48\n  line 49\n", said)

    def test_collective_of_the_crash(self) -> None:
        crash = RankOutcome(1, Status.CRASHED, exit_code=3, calls=(call("broadcast", 5),))
        said = text(waiting(0), crash)
        self.assertIn("rank 1 crashed with exit code 3 in broadcast #5 of group 0", said)
        words = "cause: rank 0 calls all_reduce #5 of group 0, rank 1 calls broadcast #5; rank 1 crashed"
        self.assertIn(words, said)


class TimeoutTest(unittest.TestCase):
    """Ranks that hang until the timeout."""

    def test_stacks_equal_ones_once(self) -> None:
        """Ranks with the same stack share one entry."""
        out = Status.TIMED_OUT
        said = text(*(waiting(r, "broadcast" if r == 1 else "all_reduce", status=out) for r in range(4)))
        cause = "cause: rank 1 calls broadcast #5 of group 0, ranks 0, 2, 3 call all_reduce #5\n"
        self.assertTrue(said.startswith(f"{TEST_ID}: timed out (world size 4) after 0.40 s\n{cause}"), said)
        self.assertIn("stack of ranks 0, 2, 3, innermost first:\n", said)
        self.assertIn("stack of rank 1, innermost first:\n", said)
        self.assertNotIn("unittest", said, "frames of the machinery are of no use")

    def test_all_that_were_late_are_named(self) -> None:
        """Of ranks that all compute until the deadline, none is to blame alone."""
        late = [RankOutcome(r, Status.TIMED_OUT, stack=stack("step", r)) for r in range(3)]
        self.assertIn("cause: rank 0 timed out (the same on ranks 0-2)\n", text(*late))
        self.assertIn("cause: rank 0 timed out\n", text(late[0], RankOutcome(1, Status.PASSED)))
        leaving = RankOutcome(1, Status.TIMED_OUT, phase="exit")
        self.assertIn("cause: rank 0 timed out\n", text(late[0], leaving))

    def test_ended_rank_without_user_frame_shows_its_stack(self) -> None:
        lost = RankOutcome(0, Status.ENDED, stack='  File "<frozen importlib>", line 1 in load\n', order=2)
        said = text(lost, failing(1))
        self.assertIn('stack of rank 0, innermost first:\n  File "<frozen importlib>", line 1, in load', said)

    def test_deep_stack_is_cut(self) -> None:
        deep = stack("barrier", 1) + '  File "/home/me/t.py", line 1 in recurse\n' * 100
        said = text(RankOutcome(0, Status.TIMED_OUT, stack=deep))
        self.assertIn("... and 88 frames more", said)


class OtherVerdictsTest(unittest.TestCase):
    """Skips, sub-tests, warnings, and outcomes without a root cause."""

    def test_divergent_skip(self) -> None:
        said = text(RankOutcome(0, Status.SKIPPED, skip_reason="no GPU"), waiting(1))
        self.assertIn("cause: divergent skip: rank 0 skipped (no GPU)", said)
        self.assertIn("meanwhile: rank 1 waits in all_reduce #5", said)

    def test_divergent_skip_with_an_error(self) -> None:
        said = text(RankOutcome(0, Status.SKIPPED, skip_reason="no GPU"), failing(1))
        self.assertIn(f"at first: rank 1 failed: AssertionError: 3 != 4\n{TRACE}", said)

    def test_subtests(self) -> None:
        def sub(number: int) -> SubtestOutcome:
            return SubtestOutcome(None, (("i", str(number)),), Status.FAILED, ASSERTION)

        first = RankOutcome(0, Status.PASSED, subtests=tuple(sub(n) for n in range(7)))
        said = text(first, RankOutcome(1, Status.PASSED, subtests=(sub(0),), order=1))
        self.assertIn("cause: rank 0: 7 sub-tests failed\n", said)
        self.assertIn(f"sub-test (i=0): failed on ranks 0, 1\n{TRACE}\n", said)
        self.assertIn("... and 2 sub-tests more", said)

    def test_sub_test_of_the_root_cause_beside_a_worse_one(self) -> None:
        """The cause is shown even where the list of sub-tests has another rank's worse outcome."""

        def sub(status: Status, error: ErrorInfo) -> tuple[SubtestOutcome]:
            return (SubtestOutcome(None, (("i", "0"),), status, error),)

        first = RankOutcome(1, Status.FAILED, subtests=sub(Status.FAILED, ASSERTION))
        said = text(RankOutcome(0, Status.ERROR, subtests=sub(Status.ERROR, LOST_PEER), order=1), first)
        self.assertIn(f"cause: rank 1: 1 sub-test failed\n{TRACE}\nsub-test (i=0): error on rank 0\n", said)

    def test_warnings(self) -> None:
        outcome = replace(merge([failing(0)]), warnings=("2 process groups left behind",))
        self.assertIn("\nwarning: 2 process groups left behind\n", text(outcome=outcome))

    def test_nobody_to_blame(self) -> None:
        """Without a root cause the text has the outcome's own reason."""
        outcome = TestOutcome(Status.ERROR, reason="the fork server died")
        self.assertEqual(
            text(outcome=outcome, rerun=""),
            f"{TEST_ID}: error after 0.00 s\ncause: the fork server died\nseed: 7",
        )

    def test_seed_is_named_once(self) -> None:
        self.assertTrue(
            text(failing(0), rerun="python -m unittest x").endswith("python -m unittest x   (seed 7)")
        )
        self.assertNotIn("(seed 7)", text(failing(0)))


if __name__ == "__main__":
    unittest.main()
