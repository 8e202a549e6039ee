"""Tests skips, cleanups, sub-tests and expected failures, about which ranks may disagree."""

from __future__ import annotations

import sys
import unittest

from harness import MultiProcessTestCase, Status
from harness.ranks.processes.pool import retire_pool
from suites.selftest.faults import verdicts
from suites.selftest.faults.rows import OnForkedInterpreters, OnForkServer, Rows

# What a verdict says about a rank that never reported; before Python 3.11 unittest tells of sub-tests only
# then.
AFTER_SUBTEST = ("after 1 sub-test had failed", "the sub-test") if sys.version_info >= (3, 11) else ()


class SkipRows(Rows):
    """Tests of which some or all ranks skip."""

    def test_all_for_one_reason(self) -> None:
        """If all ranks skip for one reason, the test skips with that reason."""
        played = self.play(verdicts.Skips, "test_all_for_one_reason")
        self.check(played, "skip", Status.SKIPPED, root=None)
        self.assertEqual(played.text, "no such thing here")

    def test_all_for_different_reasons(self) -> None:
        """If all ranks skip for different reasons, the test skips with the reasons listed by rank."""
        played = self.play(verdicts.Skips, "test_all_for_different_reasons")
        self.check(played, "skip", Status.SKIPPED, "rank 0: reason 0", "rank 1: reason 1", root=None)

    def test_one_while_the_other_passes(self) -> None:
        """A rank that skips while the other passes is an error that names the ranks and says why."""
        played = self.play(verdicts.Skips, "test_one_while_the_other_passes")
        said = ("divergent skip: rank 1 skipped (not on rank 1)", "rank 0 did not", "deadlock")
        self.check(played, "ERROR", Status.ERROR, *said)

    def test_one_while_the_other_fails(self) -> None:
        """A rank that skips while the other fails is an error that also shows the failure."""
        played = self.play(verdicts.Skips, "test_one_while_the_other_fails")
        said = ("divergent skip: rank 1 skipped", "rank 0 went on alone")
        self.check(played, "ERROR", Status.ERROR, *said, root=0)

    def test_by_decorator(self) -> None:
        """A test that is skipped by a decorator starts no rank."""
        played = self.play(verdicts.Skips, "test_by_decorator")
        self.assertEqual((played.verdict, played.text), ("skip", "by decorator"))
        self.assertEqual(played.case.processes, [])

    def test_by_class(self) -> None:
        """A class that is skipped starts no rank."""
        played = self.play(verdicts.SkippedClass, "test_anything")
        self.assertEqual((played.verdict, played.text), ("skip", "the whole class"))
        self.assertEqual(played.case.processes, [])


class CleanupRows(Rows):
    """Code that runs in a rank around the method counts."""

    def test_cleanup_fails(self) -> None:
        """A cleanup that fails an assertion is a FAIL."""
        played = self.play(verdicts.Cleanups, "test_cleanup_fails")
        self.check(played, "FAIL", Status.FAILED, "rank 1 failed: AssertionError: nothing was tidy")

    def test_cleanup_raises(self) -> None:
        """A cleanup that raises is an ERROR."""
        played = self.play(verdicts.Cleanups, "test_cleanup_raises")
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised: FileNotFoundError")

    def test_fails_and_cleanup_fails(self) -> None:
        """If the test and a cleanup fail, the test's failure is the headline and both are shown."""
        played = self.play(verdicts.Cleanups, "test_fails_and_cleanup_fails")
        self.check(
            played,
            "FAIL",
            Status.FAILED,
            "rank 1 failed: AssertionError: the test itself",
            "nothing was tidy",
        )

    def test_cleanups_run_in_the_rank(self) -> None:
        """Cleanups run in reverse order in the rank's process."""
        played = self.play(verdicts.Cleanups, "test_cleanups_run_in_the_rank")
        self.assertEqual(played.verdict, "FAIL")
        for rank in (0, 1):
            self.assertEqual(played.rank(rank).output.split("\n"), ["first True", "last True", ""])

    def test_set_up_rank_fails(self) -> None:
        """A setUpRank that raises is an ERROR with its line."""
        played = self.play(verdicts.SetUpRankFails, "test_anything")
        self.check(played, "ERROR", Status.ERROR, "rank 1 raised: OSError: no room on rank 1", "in setUpRank")

    def test_tear_down_rank_fails(self) -> None:
        """A tearDownRank that fails is a FAIL with its line."""
        played = self.play(verdicts.TearDownRankFails, "test_anything")
        self.check(
            played, "FAIL", Status.FAILED, "rank 1 failed", "rank 1 cannot be torn down", "in tearDownRank"
        )

    def test_order(self) -> None:
        """setUpRank, the method, tearDownRank and cleanups run in this order on an instance of the rank."""
        played = self.play(verdicts.AroundRanks, "test_order")
        self.assertEqual(played.rank(0).output, "setUpRank test tearDownRank False\n")


class SubtestRows(Rows):
    """Sub-tests are listed one by one, and equal ones of several ranks are merged."""

    def test_some_ranks(self) -> None:
        """A sub-test that fails on rank 1 is one failure that names the rank."""
        played = self.play(verdicts.Subtests, "test_some_ranks")
        self.check(played, "FAIL", Status.FAILED, "part 1 is bad on rank 1", "rank 1")
        self.assertEqual(len(played.texts), 1)
        self.assertIn("[part] (n=1)", str(played.result.failures[0][0]))

    def test_all_ranks(self) -> None:
        """A sub-test that fails on all ranks is one failure, shown once."""
        played = self.play(verdicts.Subtests, "test_all_ranks")
        self.assertEqual(played.verdict, "FAIL")
        self.assertEqual(len(played.texts), 1)
        self.assertIn("(n=2)", str(played.result.failures[0][0]))
        self.assertIn("ranks 0, 1", played.text)
        self.assertEqual(played.text.count("part 2 is bad everywhere\n"), played.text.count("AssertionError"))

    def test_error_and_failure(self) -> None:
        """A failed sub-test is a failure, and one that raises is an error."""
        played = self.play(verdicts.Subtests, "test_error_and_failure")
        self.assertEqual([str(t).endswith("(n=0)") for t, _ in played.result.failures], [True])
        self.assertEqual([str(t).endswith("(n=1)") for t, _ in played.result.errors], [True])
        self.assertIn("ValueError: worse", played.text)

    def test_then_the_test_fails(self) -> None:
        """If a sub-test and then the method fail, both are shown."""
        played = self.play(verdicts.Subtests, "test_then_the_test_fails")
        self.assertEqual(len(played.result.failures), 2)
        self.assertIn("the sub-test", played.text)
        self.assertIn("AssertionError: the test", played.text)

    def test_then_the_rank_dies(self) -> None:
        """If a rank dies after a failed sub-test, the crash is the verdict and the sub-test is shown."""
        played = self.play(verdicts.Subtests, "test_then_the_rank_dies")
        self.check(played, "ERROR", Status.CRASHED, "rank 1 crashed: exit code 5", *AFTER_SUBTEST)
        self.assertEqual(len(played.result.failures), 1 if AFTER_SUBTEST else 0)

    def test_skipped(self) -> None:
        """A skipped sub-test is reported as such, and the test passes."""
        played = self.play(verdicts.Subtests, "test_skipped")
        self.assertEqual((played.verdict, played.texts), ("skip", ("not this one",)))
        self.assertEqual(played.outcome.status, Status.PASSED)

    def test_fails_then_skips(self) -> None:
        """A sub-test that failed counts although the test skipped afterwards; both are reported."""
        played = self.play(verdicts.Subtests, "test_fails_then_skips")
        self.check(played, "FAIL", Status.FAILED, "(n=1): failed on rank 1")
        self.assertEqual([reason for _, reason in played.result.skipped], ["the rest"])

    def test_one_rank_skips(self) -> None:
        """A sub-test that rank 1 skips alone is an error that names it and both ranks."""
        played = self.play(verdicts.Subtests, "test_one_rank_skips")
        said = "divergent skip: rank 1 skipped (not on rank 1), rank 0 did not (rank 0 passed)"
        self.check(played, "ERROR", Status.ERROR, f"cause: sub-test [part] (n=2): {said}", root=1)
        self.assertEqual(len(played.result.errors), 1)

    def test_skips_by_rank(self) -> None:
        """A rank may skip a sub-test that other ranks do not have."""
        self.assertEqual(self.play(verdicts.Subtests, "test_skips_by_rank").outcome.status, Status.PASSED)

    def test_pass(self) -> None:
        """A test whose sub-tests pass is a pass."""
        self.assertEqual(self.play(verdicts.Subtests, "test_pass").verdict, "pass")


class ExpectedRows(Rows):
    """``expectedFailure`` works as in a single process, except that it covers no crash."""

    def test_fails_everywhere(self) -> None:
        """A failure on all ranks is the expected failure."""
        self.assertEqual(self.play(verdicts.Expected, "test_fails_everywhere").verdict, "expected failure")

    def test_fails_on_one_rank(self) -> None:
        """A failure on one rank is the expected failure."""
        self.assertEqual(self.play(verdicts.Expected, "test_fails_on_one_rank").verdict, "expected failure")

    def test_passes(self) -> None:
        """A pass is an unexpected success."""
        self.assertEqual(self.play(verdicts.Expected, "test_passes").verdict, "unexpected success")

    def test_crashes(self) -> None:
        """A crash is an error and no expected failure."""
        played = self.play(verdicts.Expected, "test_crashes")
        self.check(played, "ERROR", Status.CRASHED, "rank 1 crashed: exit code 3")

    def test_crashes_beside_a_failure(self) -> None:
        """A crash is the error, and not the expected failure that came before it."""
        played = self.play(verdicts.ExpectedFirst, "test_crashes_beside_a_failure")
        self.check(played, "ERROR", Status.CRASHED, "cause: rank 1 crashed: exit code 3")

    def test_skips_on_one_rank(self) -> None:
        """A divergent skip is an error and no expected failure."""
        played = self.play(verdicts.Expected, "test_skips_on_one_rank")
        self.check(played, "ERROR", Status.ERROR, "divergent skip")

    def test_cleanup_fails(self) -> None:
        """A cleanup that fails is a failure and no expected one."""
        played = self.play(verdicts.Expected, "test_cleanup_fails")
        self.assertEqual(played.verdict, "FAIL", played.text)
        self.assertIn("nothing was tidy", played.text)

    def test_subtest_fails(self) -> None:
        """A failed sub-test is the expected failure."""
        self.assertEqual(self.play(verdicts.Expected, "test_subtest_fails").verdict, "expected failure")


class NotRunRows(Rows):
    """A test passes only where its method ran to its end."""

    def test_not_ordinary(self) -> None:
        """A coroutine or generator function is an error without ranks, also where a failure is expected."""
        for method, what in (
            ("test_coroutine", "test_coroutine is an async def"),
            ("test_of_value_x_1", "test_of_value_x_1 is an async def"),
            ("test_generator", "test_generator has a yield"),
            ("test_expected", "test_expected is an async def"),
        ):
            with self.subTest(method):
                self.refused(
                    verdicts.NotOrdinary, method, f"{what}, and a test on ranks has to be an ordinary"
                )

    def test_event_loop(self) -> None:
        """A case with an event loop of its own is an error that says so, before ranks start."""
        said = "an IsolatedAsyncioTestCase cannot run on ranks"
        self.refused(verdicts.WithEventLoop, "test_coroutine", said)

    def refused(self, case: type[MultiProcessTestCase], method: str, said: str) -> None:
        """Checks that a test is an error that says so, and that it has no ranks."""
        played = self.play(case, method)
        self.assertEqual(played.verdict, "ERROR", played.text)
        self.assertIn(said, played.text)
        self.assertEqual(played.case.processes, [])
        self.assertIsNone(played.case._harness_outcome, "ranks have run")

    def test_hidden_coroutine(self) -> None:
        """A method that returns a coroutine of which nobody knew is an error of its ranks."""
        played = self.play(verdicts.NotOrdinary, "test_hides_a_coroutine")
        self.assertEqual(played.verdict, "ERROR", played.text)
        self.assertIn("returned a coroutine, and its body did not run", played.text)


class PatchedUnittestTest(OnForkServer):
    """Pooled ranks in which an earlier test has patched unittest."""

    def tearDown(self) -> None:
        """Ends the pooled ranks."""
        retire_pool()
        super().tearDown()

    def test_method_is_not_called(self) -> None:
        """A test whose method unittest does not call does not pass; on fresh ranks it fails as it should."""
        self.play(verdicts.PatchesUnittest, "test_a_patches", HARNESS_RANKS="pooled")
        played = self.play(verdicts.PatchesUnittest, "test_b_fails", HARNESS_RANKS="pooled")
        self.assertEqual(played.verdict, "ERROR", played.text)
        self.assertIn("its method was never called", played.text)


class NotRunOnForkServer(NotRunRows, OnForkServer):
    """Runs the tests on the fork server."""


class SkipsOnForkServer(SkipRows, OnForkServer):
    """Runs the tests on the fork server."""


class SkipsOnSpawn(SkipRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


class CleanupsOnForkServer(CleanupRows, OnForkServer):
    """Runs the tests on the fork server."""


class CleanupsOnSpawn(CleanupRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


class SubtestsOnForkServer(SubtestRows, OnForkServer):
    """Runs the tests on the fork server."""


class SubtestsOnSpawn(SubtestRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


class ExpectedOnForkServer(ExpectedRows, OnForkServer):
    """Runs the tests on the fork server."""


class ExpectedOnSpawn(ExpectedRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


if __name__ == "__main__":
    unittest.main()
