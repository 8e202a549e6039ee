"""Tests that a backend's wrong numbers are found on ranks of each mode, and nothing where it is right."""

from __future__ import annotations

import os
import tempfile
import unittest
from collections.abc import Sequence
from typing import Any
from unittest import mock

from torch.testing._internal.distributed import multi_threaded_pg as threaded

from harness import RankLeakWarning
from harness.errors import UsageError
from harness.ranks.processes import pool
from harness.settings import Settings
from suites.selftest.communication import lying_cases
from suites.selftest.faults.rows import OnForkServer, Played

VALUES = {"HARNESS_COMM_CHECK": "values"}
FOR_SIX = "for 6.0: sum of float32 over ranks 0, 1"
ONE_OF_TWO = "1 of 2 elements is wrong"


def setUpModule() -> None:
    """Gives the compiler a directory for all tests, so that it is no leftover of the first that loads it."""
    caches = tempfile.TemporaryDirectory(prefix="harness-selftest-")
    unittest.addModuleCleanup(caches.cleanup)
    patch = mock.patch.dict(os.environ, TORCHINDUCTOR_CACHE_DIR=caches.name)
    patch.start()
    unittest.addModuleCleanup(patch.stop)


class LiesTest(OnForkServer):
    """What is said of a backend that gives rank 1 a wrong number."""

    def check_found(self, case: type[Any], method: str, *words: str, **environ: str) -> Played:
        """Expects an error whose cause has the words."""
        played = self.play(case, method, **(environ or VALUES))
        self.assertEqual(played.verdict, "ERROR", played.text)
        cause = next((line for line in played.text.splitlines() if line.startswith("cause: ")), "")
        for word in words:
            self.assertIn(word, cause, played.text)
        return played

    def check_silent(self, case: type[Any], method: str, **environ: str) -> None:
        """Expects a pass with nothing said."""
        played = self.play(case, method, **(environ or VALUES))
        self.assertEqual((played.verdict, told(played)), ("pass", []), played.text)

    def test_fresh(self) -> None:
        """The rank, the number, its place, the call, what it ought to be."""
        rows: tuple[tuple[str, Sequence[str]], ...] = (
            (
                "test_all_reduce",
                (
                    "rank 1 got 7.0 at [1] of all_reduce #2 of the default group (lying_cases.py:",
                    FOR_SIX,
                    ONE_OF_TWO,
                ),
            ),
            ("test_async", ("all_reduce #1", FOR_SIX)),
            ("test_polled", ("all_reduce #1", FOR_SIX)),
            ("test_functional", ("all_reduce #1", FOR_SIX)),
            ("test_broadcast", ("broadcast #1", "rank 1 got 3.0 at [1]", "for 2.0: float32 from rank 0")),
            ("test_objects", ("all_gather_object #1", "uint8")),
            ("test_message", ("recv from rank 1", "got 5.0 at [1]", "for 4.0: float32 of the send to rank")),
        )
        for method, words in rows:
            with self.subTest(method):
                self.check_found(lying_cases.FreshLies, method, " got ", *words)

    def test_by_decorator(self) -> None:
        """A test may ask for the check, or against it, whatever the variable says."""
        self.check_found(lying_cases.FreshLies, "test_by_decorator", "rank 1 got", HARNESS_COMM_CHECK="warn")
        self.check_silent(lying_cases.FreshLies, "test_off")

    def test_beside_a_failure(self) -> None:
        """Where the test itself fails for the wrong number, the call is told beside it."""
        played = self.play(lying_cases.FreshLies, "test_failing", **VALUES)
        self.assertEqual(played.verdict, "FAIL", played.text)
        self.assertIn("warning: rank 1 got 7.0 at [1] of all_reduce #1", played.text)

    def test_pooled(self) -> None:
        """On kept ranks, test after test, with and without the check; the wrong number is no pollution."""
        self.addCleanup(pool.retire_pool)
        self.check_silent(lying_cases.PooledLies, "test_right")
        self.check_silent(lying_cases.PooledLies, "test_all_reduce", HARNESS_COMM_CHECK="warn")
        self.check_silent(lying_cases.PooledLies, "test_right")
        played = self.check_found(
            lying_cases.PooledLies, "test_all_reduce", "rank 1 got 7.0 at [1] of all_reduce #4"
        )
        self.assertIn("a fault of its own", played.text)

    def test_threads(self) -> None:
        """On threads, where torch's group lies."""
        real = threaded.AllReduce.work

        def work(collective: Any, data: Any) -> None:
            real(collective, data)
            data[lying_cases.LIAR][0][1] += 1

        with mock.patch.object(threaded.AllReduce, "work", work):
            self.check_found(
                lying_cases.LiesOnThreads, "test_all_reduce", "rank 1 got 7.0 at [1] of all_reduce #1"
            )
        self.check_silent(lying_cases.LiesOnThreads, "test_right")

    def test_right(self) -> None:
        """A right backend, of which nothing is said."""
        self.check_silent(lying_cases.FreshLies, "test_right")

    def test_written_while_pending(self) -> None:
        """What a rank writes itself before its wait is told as that, and is no wrong number."""
        played = self.play(lying_cases.FreshLies, "test_written", **VALUES)
        self.assertEqual(played.verdict, "pass", played.text)
        (warning,) = told(played)
        self.assertIn("rank 0: a tensor of all_reduce", warning)
        self.assertIn("was written before the wait for it", warning)
        self.assertIn("values were not compared: 1 with memory that was written", warning)
        self.assertNotIn(" got ", warning)

    def test_unknown_level(self) -> None:
        """Another value of the variable is refused, with the ones that there are."""
        with self.assertRaisesRegex(
            UsageError, "^HARNESS_COMM_CHECK='value': write one of off, warn, error, values$"
        ):
            Settings.from_environ({"HARNESS_COMM_CHECK": "value"})


def told(played: Played) -> list[str]:
    """What a test was warned of, but for what it left behind."""
    return [str(each.message) for each in played.warnings if each.category is not RankLeakWarning]


if __name__ == "__main__":
    unittest.main()
