"""Tests the rank mode "external" on ranks that this test starts itself, as torchrun does."""

from __future__ import annotations

import os
import subprocess
import unittest
from pathlib import Path
from typing import ClassVar

from suites.selftest import warm_python
from suites.selftest.ranks.external.jobs import BODIES, LONG_S, ROOT, Job

LIVING = (
    "Three.test_sum",
    "Three.test_fails_on_1",
    "Three.test_raises_on_2",
    "Three.test_skips",
    "Three.test_skips_on_2",
    "Three.test_subtests",
    "Three.test_subtest_skips_on_1",
    "Three.test_coroutine",
    "Three.test_exits_on_1",
    "Three.test_sleeps_on_1",
    "Three.test_leaves_dtype_on_0",
    "Three.test_dtype",
    "Three.test_leaves_patches_on_1",
    "Three.test_leaves_patches_on_1_and_fails",
    "Three.test_replaces_json_on_1",
    "Three.test_expected",
    "Two.test_sum",
    "Two.test_fails",
    "Nine.test_never",
    "SetUp.test_passes",
    "Kept.test_first",
    "Kept.test_second",
    "Threads.test_sum",
)
DYING = ("Three.test_sum", "Three.test_dies_on_2", "Two.test_sum", "Three.test_sum")
LOSING = (*DYING, "Two.test_on_0_only", "Two.test_fails", "NoRanks.test_dies")
LOST = (*DYING, "Two.test_fails", "Two.test_meets_nobody")


class LivingTest(unittest.TestCase):
    """Tests after which every process goes on."""

    job: ClassVar[Job]

    @classmethod
    def setUpClass(cls) -> None:
        cls.job = Job(LIVING, LIVING, LIVING)
        cls.addClassCleanup(cls.job.close)
        cls.job.wait()

    def check(self, name: str, verdict: str, *words: str) -> None:
        """Checks that the test's verdict and text are the same in every process."""
        for rank in range(3):
            with self.subTest(name, rank=rank):
                found = self.job.verdicts(rank).get(name, ("none", self.job.printed[rank]))
                self.assertEqual(found[0], verdict, found[1])
                for word in words:
                    self.assertIn(word, found[1])

    def test_passes(self) -> None:
        """A test passes also after tests that went wrong: groups are made anew, and no rank is lost."""
        for name in ("Three.test_sum", "Three.test_dtype", "Kept.test_first", "Kept.test_second"):
            self.check(name, "pass")

    def test_failure(self) -> None:
        """The verdict names the cause and where the others waited, until the cause's connections end."""
        self.check(
            "Three.test_fails_on_1",
            "FAIL",
            "cause: rank 1 failed",
            "ranks 0, 2 wait in barrier #1 of the default group",
            "on each rank",
        )

    def test_error(self) -> None:
        """An error of one rank is the verdict in every process, although the others pass."""
        self.check("Three.test_raises_on_2", "ERROR", "rank 2 raised: RuntimeError: as planned")

    def test_skips(self) -> None:
        """A test skips if all ranks skip, and is an error if one does."""
        self.check("Three.test_skips", "skip", "for all of us")
        self.check("Three.test_skips_on_2", "ERROR", "divergent skip: rank 2 skipped (for me)")

    def test_never_came_to_its_rank(self) -> None:
        """A setUp that skips in one process makes the test an error in every process."""
        self.check("SetUp.test_passes", "ERROR", "divergent skip: rank 1 skipped (its test skipped or failed")

    def test_subtests(self) -> None:
        """Sub-tests are merged as in the other rank modes."""
        self.check("Three.test_subtests", "FAIL", "sub-test (number=1): failed on rank 1")

    def test_subtest_skips(self) -> None:
        """A sub-test that one rank skips alone is an error in every process."""
        words = "sub-test (number=1): divergent skip: rank 1 skipped (for me), ranks 0, 2 did not"
        self.check("Three.test_subtest_skips_on_1", "ERROR", words)

    def test_coroutine(self) -> None:
        """A method whose body no rank would run is refused in every process."""
        self.check("Three.test_coroutine", "ERROR", "test_coroutine is an async def")

    def test_exit(self) -> None:
        """A test's sys.exit ends the test and not the process."""
        self.check("Three.test_exits_on_1", "ERROR", "rank 1 crashed: exit code 7", "by sys.exit")

    def test_deadline(self) -> None:
        """A rank that runs Python is interrupted at the deadline, and the verdict shows where."""
        self.check("Three.test_sleeps_on_1", "ERROR", "cause: rank 1 timed out", "in test_sleeps_on_1")

    def test_leftovers(self) -> None:
        """Every process warns of what one rank left changed."""
        self.check("Three.test_leaves_dtype_on_0", "pass", "left changed in rank 0: default dtype")

    def test_patches(self) -> None:
        """What a rank leaves replaced changes no verdict, is named, and is put back for the next test."""
        self.check("Three.test_leaves_patches_on_1", "pass", "left changed in rank 1: json.dumps;")
        self.check(
            "Three.test_leaves_patches_on_1_and_fails",
            "FAIL",
            "rank 1 failed: AssertionError: the test's own",
        )

    def test_replaced_meanwhile(self) -> None:
        """What a rank has replaced meanwhile does not keep its process from hearing the others."""
        self.check("Three.test_replaces_json_on_1", "pass")

    def test_expected_failure(self) -> None:
        """A test that is decorated with ``expectedFailure`` may fail."""
        self.check("Three.test_expected", "expected failure")

    def test_fewer(self) -> None:
        """Processes without a rank get the verdict too."""
        self.check("Two.test_sum", "pass")
        self.check("Two.test_fails", "FAIL", "cause: rank 0 failed", "world size 2")

    def test_more(self) -> None:
        """A test that asks for more ranks than were started gets one line that says so."""
        self.check("Nine.test_never", "ERROR", "the test asks for 9 ranks, and 3 were started")

    def test_threads(self) -> None:
        """A test on threads runs in each process by itself."""
        self.check("Threads.test_sum", "pass")

    def test_exit_codes(self) -> None:
        """All processes have the same exit code, though they are done at different times."""
        self.job.wait()
        self.assertEqual(self.job.codes, [1, 1, 1], self.job.printed)


class LostTest(unittest.TestCase):
    """Ranks that are lost during a test.

    The jobs run side by side, because each mostly waits for a deadline.
    """

    losing: ClassVar[Job]
    hanging: ClassVar[Job]
    alone: ClassVar[Job]

    @classmethod
    def setUpClass(cls) -> None:
        cls.losing = Job(LOSING, LOST, DYING, hosted=False)
        cls.addClassCleanup(cls.losing.close)
        cls.hanging = Job(["Two.test_sum", "Two.test_deadlock"], ["Two.test_sum", "Two.test_deadlock"])
        cls.addClassCleanup(cls.hanging.close)
        cls.alone = Job(["Two.test_sum", "Two.test_fails"], size=2, HARNESS_TIMEOUT="0.5")
        cls.addClassCleanup(cls.alone.close)
        for job in (cls.losing, cls.hanging, cls.alone):
            job.wait()

    def test_dead(self) -> None:
        """A test that needs a dead rank is an error at once and names it; a test without it goes on."""
        job = self.losing
        for rank in (0, 1):
            told = job.verdicts(rank)
            self.assertEqual(told["Two.test_sum"], ("pass", ""))
            self.assertEqual(told["Three.test_dies_on_2"][0], "ERROR", told)
            self.assertIn("cause: rank 2 crashed: gone without an outcome", told["Three.test_dies_on_2"][1])
            self.assertEqual(told["Three.test_sum"][0], "ERROR")
            self.assertIn("rank 2 cannot take part any more", told["Three.test_sum"][1])
        self.assertEqual(job.codes, [4, 1, 3], job.printed)

    def test_out_of_step(self) -> None:
        """A rank that never came to a test is named with its last test, and later tests cannot have it."""
        kind, text = self.losing.verdicts(0)["Two.test_on_0_only"]
        self.assertEqual(kind, "ERROR")
        self.assertIn("rank 1 crashed: gone without an outcome (no word from it by the deadline", text)
        self.assertIn("Two.test_fails)", text)
        kind, text = self.losing.verdicts(0)["Two.test_fails"]
        self.assertEqual(kind, "ERROR")
        kind, text = self.losing.verdicts(1)["Two.test_fails"]
        self.assertEqual(kind, "ERROR")
        # Rank 0 has ended by now and may have taken the store with it.
        self.assertRegex(text, "rank 1 cannot take part any more|the store at .* is gone")

    def test_stuck(self) -> None:
        """If ranks are stuck in C, each process ends by itself with the verdict of all."""
        job = self.hanging
        job.wait()
        self.assertEqual(job.codes, [1, 1], job.printed)
        for printed in job.printed:
            self.assertIn("Two.test_deadlock: deadlocked", printed)
            self.assertIn("cause: ranks 0 -> 1 -> 0 wait for each other in recv", printed)

    def test_host(self) -> None:
        """If the store dies with its host, the verdict says that the store is gone."""
        kind, text = self.losing.verdicts(1)["Two.test_meets_nobody"]
        self.assertEqual(kind, "ERROR")
        self.assertRegex(text, r"no word from the other ranks: the store at 127\.0\.0\.1:\d+ is gone")

    def test_never_came(self) -> None:
        """A rank that never came is waited for once and named in every test."""
        told = self.alone.verdicts(0)
        for name in ("Two.test_sum", "Two.test_fails"):
            self.assertEqual(told[name][0], "ERROR")
            self.assertIn("rank 1 did not come", told[name][1])
        self.assertEqual(self.alone.codes, [1])


class TorchrunTest(unittest.TestCase):
    """Ranks that the real torchrun starts."""

    def torchrun(self, *names: str, **environ: str) -> subprocess.CompletedProcess[str]:
        """Runs tests of ``BODIES`` on two ranks, by unittest."""
        command = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
        return warm_python.run(
            [*command, "-m", "unittest", *(f"{BODIES}.{name}" for name in names)],
            env={**os.environ, "HARNESS_LAUNCHER": "external", "OMP_NUM_THREADS": "1", **environ},
            cwd=Path(ROOT),
            timeout=LONG_S,
            merged=False,
        )

    def test_verdicts(self) -> None:
        """Rank 0 prints the verdicts, once, and rank 1 a line; tests that need more ranks skip if wanted."""
        names = ("Two.test_sum", "Two.test_fails", "Nine.test_never")
        done = self.torchrun(*names, HARNESS_TOO_FEW_RANKS="skip")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr.count("cause: rank 0 failed: AssertionError"), 1, done.stderr)
        self.assertEqual(done.stderr.count("FAILED (failures=1, skipped=1)"), 1, done.stderr)
        self.assertIn("harness: rank 1: ran 3 tests, 1 bad; rank 0 reports them", done.stderr)

    def test_death(self) -> None:
        """The survivor reports in full before torchrun has ended it, whichever rank it is.

        It has the error, names the tests that did not run, and says how many ran.
        """
        for dies, survives in ((1, 0), (0, 1)):
            with self.subTest(dies=dies):
                done = self.torchrun("Two.test_sum", "Two.test_dies", "Two.test_fails", DIES=str(dies))
                self.assertEqual(done.returncode, 1, done.stderr)
                # Python 3.10 names the class alone.
                self.assertIn(f"ERROR: test_dies ({BODIES}.Two", done.stderr)
                self.assertIn(f"cause: rank {dies} crashed: gone without an outcome", done.stderr)
                self.assertIn("Ran 2 tests", done.stderr)
                self.assertIn(f"harness: rank {survives}: the launcher ends the job (SIGTERM)", done.stderr)
                self.assertIn(f"  did not run: {BODIES}.Two.test_fails\n", done.stderr)

    def test_holder_of_the_lock(self) -> None:
        """A rank that holds the interpreter's lock ends, with the line where it is, and the other reports."""
        done = self.torchrun("Two.test_holds_the_lock_on_1")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, r"bodies\.py\", line \d+ in test_holds_the_lock_on_1")
        self.assertIn("cause: rank 1 crashed: gone without an outcome", done.stderr)


if __name__ == "__main__":
    unittest.main()
