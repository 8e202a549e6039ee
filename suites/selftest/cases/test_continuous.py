"""Tests pooled ranks: what they share, how leftovers are kept from the next test and reported."""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import tempfile
import unittest
from typing import ClassVar
from unittest import mock

from harness import RankLeakWarning, Status
from harness.cases import multiprocess
from harness.errors import InterruptReport
from harness.ranks.job import JobResult
from harness.ranks.processes import pool
from harness.ranks.processes.channel import MOST_SUBTESTS
from harness.ranks.second_attempt import SecondAttempt
from suites.selftest.faults import pooled
from suites.selftest.faults.rows import OnForkServer, OnSpawn, Played


def pids(played: Played) -> list[int | None]:
    """Returns the ranks' process ids."""
    return [o.pid for o in played.outcome.ranks]


class Pooled(OnForkServer):
    """Base class whose tests start without a rank set and leave none."""

    def setUp(self) -> None:
        super().setUp()
        self.addCleanup(pool.retire_pool)


class Sharing(Pooled):
    """Which tests share ranks."""

    def test_tests_share_ranks_and_group(self) -> None:
        first = self.passes(pooled.Shared, "test_hooks")
        self.assertEqual(pids(self.passes(pooled.Shared, "test_sum")), pids(first))
        self.assertEqual(pids(self.passes(pooled.Shared, "test_hooks")), pids(first))

    def test_classes_that_ask_for_the_same_share(self) -> None:
        first = self.passes(pooled.Shared, "test_sum")
        self.assertEqual(pids(self.passes(pooled.SharedToo, "test_hooks")), pids(first))

    def test_another_world_size_gets_other_ranks(self) -> None:
        first = self.passes(pooled.Shared, "test_sum")
        self.assertFalse(set(pids(self.passes(pooled.Wider, "test_sum"))) & set(pids(first)))

    def test_hooks_that_are_properties(self) -> None:
        first = self.passes(pooled.Shared, "test_sum")
        self.assertEqual(pids(self.passes(pooled.Properties, "test_hooks")), pids(first))
        self.passes(pooled.UnsizedProperties, "test_size")

    def test_own_options_share_with_nobody(self) -> None:
        first = self.passes(pooled.Shared, "test_sum")
        self.assertFalse(set(pids(self.passes(pooled.OwnOptions, "test_sum"))) & set(pids(first)))

    def test_surroundings_are_taken_over(self) -> None:
        """Kept ranks take over the number of threads and the debug level of each test."""
        detail = {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}
        rows: tuple[tuple[str, dict[str, str], str], ...] = (
            ("1", {}, "1 0"),
            ("2", detail, "2 2"),
            ("1", {}, "1 0"),
        )
        found = []
        for threads, level, said in rows:
            environ = {"OMP_NUM_THREADS": threads, "HARNESS_RANKS": "pooled", **level}
            played = self.passes(pooled.FreshGroup, "test_surroundings", **environ)
            self.assertEqual([o.output.strip() for o in played.outcome.ranks], [said] * 2)
            found.append(pids(played))
        self.assertEqual(found, found[:1] * len(rows))

    def test_a_kept_group_is_not_shared_with_other_variables(self) -> None:
        """A kept group is shared unless the variables that a group depends on differ."""
        first = self.passes(pooled.Shared, "test_surroundings")
        self.assertEqual(pids(self.passes(pooled.Shared, "test_sum", ANOTHER="1")), pids(first))
        detail = self.passes(pooled.Shared, "test_surroundings", TORCH_DISTRIBUTED_DEBUG="DETAIL")
        self.assertFalse(set(pids(detail)) & set(pids(first)))
        self.assertEqual([o.output.split()[1] for o in detail.outcome.ranks], ["2", "2"])

    def test_compiler_and_warnings_are_as_in_a_new_rank(self) -> None:
        for method in ("test_compiler_is_new", "test_warnings_are_new"):
            first = self.passes(pooled.Shared, method)
            self.assertEqual(pids(self.passes(pooled.Shared, method)), pids(first))

    def test_run_test_given_id_can_add_arguments(self) -> None:
        self.passes(pooled.OwnArguments, "test_argument")

    def test_fresh_ranks_on_request(self) -> None:
        first = self.passes(pooled.Shared, "test_sum", HARNESS_RANKS="fresh")
        second = self.passes(pooled.Shared, "test_sum", HARNESS_RANKS="fresh")
        self.assertFalse(set(pids(first)) & set(pids(second)))

    def test_reused_processes_with_a_fresh_group_each(self) -> None:
        first = self.passes(pooled.FreshGroup, "test_sum", HARNESS_RANKS="pooled")
        self.assertEqual(
            pids(self.passes(pooled.FreshGroup, "test_sum", HARNESS_RANKS="pooled")), pids(first)
        )

    def test_a_skip_in_ranks_is_a_skip_and_keeps_them(self) -> None:
        first = self.passes(pooled.Shared, "test_sum")
        skipped = self.play(pooled.Shared, "test_skips")
        self.assertEqual((skipped.verdict, skipped.texts), ("skip", ("not today",)))
        self.assertEqual(pids(self.passes(pooled.Shared, "test_sum")), pids(first))


class Replacement(Pooled):
    """A set whose ranks a test leaves failed, hung or dead is replaced, and the class goes on."""

    def assert_next_is_unharmed(self, verdict: str, status: Status, method: str, **environ: str) -> None:
        """Checks the bad test's verdict, and that the next test passes on other ranks."""
        bad = self.play(pooled.Shared, method, **environ)
        self.assertEqual((bad.verdict, bad.outcome.status), (verdict, status), bad.text)
        after = self.passes(pooled.Shared, "test_sum")
        self.assertFalse(set(pids(after)) & set(pids(bad)))

    def test_failure(self) -> None:
        self.assert_next_is_unharmed("FAIL", Status.FAILED, "test_fails")

    def test_failure_beside_a_forked_child(self) -> None:
        """The report of a forked child does not count, neither now nor in the next test."""
        self.assert_next_is_unharmed("FAIL", Status.FAILED, "test_forks_and_fails")

    def test_crash(self) -> None:
        self.assert_next_is_unharmed("ERROR", Status.CRASHED, "test_crashes")

    def test_hang(self) -> None:
        self.passes(pooled.Shared, "test_sum")  # the deadline is short, and not for the start of ranks
        self.assert_next_is_unharmed("ERROR", Status.TIMED_OUT, "test_hangs", HARNESS_TIMEOUT="2")

    @unittest.skipIf(sys.version_info < (3, 11), "unittest tells of sub-tests when the test is over")
    def test_hang_after_sub_tests(self) -> None:
        """The first failed sub-tests before a hang are reported, in each of two tests anew."""
        self.passes(pooled.Shared, "test_sum")
        for _ in range(2):
            played = self.play(pooled.Shared, "test_hangs_after_a_sub_test", HARNESS_TIMEOUT="2")
            self.check(played, "ERROR", Status.TIMED_OUT, f"after {MOST_SUBTESTS} sub-tests had failed")

    def test_announced_end(self) -> None:
        """Kept ranks report an announced exit code without ending, and the next test gets other ranks."""
        first = self.passes(pooled.Announced, "test_sum", HARNESS_RANKS="pooled")
        announced = self.passes(pooled.Announced, "test_exits", HARNESS_RANKS="pooled")
        self.assertEqual(pids(announced), pids(first))
        after = self.passes(pooled.Announced, "test_sum", HARNESS_RANKS="pooled")
        self.assertFalse(set(pids(after)) & set(pids(first)))
        another = self.play(pooled.Announced, "test_exits_with_another", HARNESS_RANKS="pooled")
        self.assertEqual(another.verdict, "ERROR", another.text)
        self.assertIn("a fault of its own", another.text)

    def test_divergent_skip(self) -> None:
        self.assert_next_is_unharmed("ERROR", Status.ERROR, "test_skips_alone")

    def test_group_destroyed_by_its_test(self) -> None:
        first = self.passes(pooled.Shared, "test_destroys_group")
        self.assertTrue(any("destroyed" in line for line in first.rank(0).left), first.rank(0).left)
        self.assertFalse(set(pids(self.passes(pooled.Shared, "test_sum"))) & set(pids(first)))

    def test_death_between_tests(self) -> None:
        first = self.passes(pooled.Shared, "test_sum")
        victim = first.outcome.ranks[0].pid
        assert victim is not None
        gone = os.pidfd_open(victim)
        self.addCleanup(os.close, gone)
        os.kill(victim, signal.SIGKILL)
        _wait_readable(gone)
        self.assertFalse(set(pids(self.passes(pooled.Shared, "test_sum"))) & set(pids(first)))


class Pollution(Pooled):
    """A test that fails on used ranks is tried once on fresh ones."""

    def test_pollution_is_told_from_a_fault(self) -> None:
        self.passes(pooled.Shared, "test_leaves_residue")
        polluted = self.play(pooled.Shared, "test_minds_residue")
        self.assertEqual(polluted.verdict, "FAIL")
        self.assertIn("pollution: it passes on fresh ranks", polluted.text)

    def test_pollution_of_a_test_with_a_group_of_its_own(self) -> None:
        """The fresh ranks get another rendezvous file, because the first one leads to the failed ranks."""
        self.passes(pooled.FreshGroup, "test_leaves_residue", HARNESS_RANKS="pooled")
        polluted = self.play(pooled.FreshGroup, "test_minds_residue_after_a_sum", HARNESS_RANKS="pooled")
        self.assertEqual(polluted.verdict, "FAIL")
        self.assertIn("pollution: it passes on fresh ranks", polluted.text)

    def test_interrupted(self) -> None:
        """Where Ctrl-C ends the second attempt, the exception has the ranks of the first."""
        self.passes(pooled.Shared, "test_sum")
        stopped = SecondAttempt(JobResult((), interrupted=True))
        with (
            mock.patch.object(multiprocess, "second_attempt", lambda *_, **__: stopped),
            self.assertRaises(KeyboardInterrupt) as caught,
        ):
            self.play(pooled.Shared, "test_fails")
        report = InterruptReport.of(caught.exception)
        assert report is not None
        self.assertEqual(report.outcome.rank(1).status, Status.FAILED, str(report))

    def test_fault(self) -> None:
        self.passes(pooled.Shared, "test_sum")
        self.assertIn("a fault of its own", self.play(pooled.Shared, "test_fails").text)

    def test_hang_is_not_tried_again(self) -> None:
        """A test that hangs is not tried again, because a second deadline could hit the run's watchdog."""
        self.passes(pooled.Shared, "test_sum")
        hung = self.play(pooled.Shared, "test_hangs", HARNESS_TIMEOUT="1")
        self.assertEqual(hung.outcome.status, Status.TIMED_OUT)
        self.assertIn("its deadline leaves no time to try it on fresh ranks", hung.text)

    def test_first_test_of_a_set_cannot_be_polluted(self) -> None:
        first = self.play(pooled.Shared, "test_fails")
        self.assertNotIn("fresh ranks", first.text)


class Dirt(Pooled):
    """What the leak guard reports about rank 1 after each faulty test."""

    def setUp(self) -> None:
        # torch makes this directory when determinism is set, so that the test must not be blamed for it
        cache = tempfile.mkdtemp(prefix="selftest-cache-")
        self.addCleanup(shutil.rmtree, cache)
        patch = mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=cache)
        patch.start()
        self.addCleanup(patch.stop)
        super().setUp()

    ROWS: ClassVar[dict[str, str]] = {
        "test_environment": "environment: LEFT_BEHIND",
        "test_cwd": "working directory: ",
        "test_sys_path": "sys.path: ",
        "test_default_dtype": "default dtype: torch.float32 became torch.float64",
        "test_default_device": "default device: cpu became meta",
        "test_deterministic": "deterministic algorithms: False became True",
        "test_debug_level": "torch.distributed's debug level: 0 became 2",
        "test_grad_mode": "grad mode: True became False",
        "test_signal_handler": "signal handlers: SIGUSR1",
        "test_thread": "thread left-behind",
        "test_descriptor": "(/dev/zero)",
        "test_child_process": "child process ",
        "test_group": "process group ",
    }

    def test_rows(self) -> None:
        for method, said in self.ROWS.items():
            with self.subTest(method):
                self.passes(pooled.Shared, "test_sum")
                dirty = self.passes(pooled.Leaves, method)
                self.assertTrue(any(said in line for line in dirty.rank(1).left), dirty.rank(1).left)
                told = [str(w.message) for w in dirty.warnings if w.category is RankLeakWarning]
                self.assertTrue(any(said in text for text in told), told)
                after = self.passes(pooled.Shared, "test_sum")
                self.assertFalse(set(pids(after)) & set(pids(dirty)))

    def test_group_that_was_begun_and_not_made(self) -> None:
        """If a rank began a group and failed to make it, the next test gets other ranks and does not hang."""
        dirty = self.passes(pooled.FreshGroup, "test_gives_up_a_group", HARNESS_RANKS="pooled")
        self.assertEqual(dirty.rank(0).left, ("a process group that was begun and not made",))
        self.assertEqual(dirty.rank(1).left, ())
        after = self.passes(pooled.FreshGroup, "test_sum", HARNESS_RANKS="pooled")
        self.assertFalse(set(pids(after)) & set(pids(dirty)))

    def test_further_group_that_was_begun_by_one_rank(self) -> None:
        """Ranks that began different numbers of groups get no other test, and equal ones do."""
        group = self.passes(pooled.Shared, "test_further_group")
        dirty = self.passes(pooled.Shared, "test_gives_up_a_further_group")
        self.assertEqual(pids(dirty), pids(group))
        self.assertEqual(dirty.rank(0).left, ("process groups begun: 1, on others 0",))
        self.assertEqual(dirty.rank(1).left, ("process groups begun: 0, on others 1",))
        after = self.passes(pooled.Shared, "test_further_group")
        self.assertFalse(set(pids(after)) & set(pids(dirty)))

    def test_strict(self) -> None:
        dirty = self.play(pooled.Leaves, "test_environment", HARNESS_STRICT="1")
        self.assertEqual(dirty.verdict, "ERROR")
        self.assertIn("environment: LEFT_BEHIND", dirty.text)


class OnNewInterpreters(OnSpawn):
    """Pooled ranks on the spawn launcher."""

    def test_share_then_replace(self) -> None:
        self.addCleanup(pool.retire_pool)
        first = self.play(pooled.Shared, "test_sum")
        self.assertEqual(first.verdict, "pass", first.text)
        self.assertEqual(pids(self.play(pooled.Shared, "test_hooks")), pids(first))
        self.assertEqual(self.play(pooled.Shared, "test_crashes").outcome.status, Status.CRASHED)
        self.assertEqual(self.play(pooled.Shared, "test_sum").verdict, "pass")


def _wait_readable(fd: int) -> None:
    poll = select.poll()
    poll.register(fd, select.POLLIN)
    assert poll.poll(10_000), "a killed process did not go away"


if __name__ == "__main__":
    unittest.main()
