"""Tests what a rank mode is asked for and what it gives back."""

from __future__ import annotations

import dataclasses
import unittest

from harness.outcomes import RankOutcome, Status
from harness.protocol import Launch, ModuleRef
from harness.ranks.external.mode import ExternalRanks
from harness.ranks.job import Job, JobResult, RunningRanks
from harness.ranks.local.mode import LocalTensorRanks
from harness.ranks.processes.mode import FreshRanks, PooledRanks
from harness.ranks.threads.mode import ThreadRanks
from harness.settings import Settings


class JobTest(unittest.TestCase):
    """``Job`` and ``JobResult``, which are values."""

    def test_defaults(self) -> None:
        """A job shares its ranks with any other unless it says more, and its group with none."""
        request = Launch(ModuleRef("m"), "Case", "test", 2, "", {}, "/", [], [])
        job = Job(unittest.TestCase, "m.Case.test", request, Settings(), 60.0)
        self.assertIsNone(job.pool_key)
        self.assertFalse(job.keeps_group)
        with self.assertRaises(dataclasses.FrozenInstanceError):
            job.timeout_s = 1.0  # type: ignore[misc]  # what the test is about

    def test_result(self) -> None:
        """A result has nothing but the outcomes unless something went wrong beside them."""
        result = JobResult((RankOutcome(0, Status.PASSED),))
        self.assertEqual((result.leaked, result.notes), ((), ()))
        self.assertFalse(result.server_lost or result.interrupted)
        self.assertEqual(result, JobResult((RankOutcome(0, Status.PASSED),)))


class RunningRanksTest(unittest.TestCase):
    """``RunningRanks``, which the ranks of every mode are."""

    def test_every_mode(self) -> None:
        """The ranks of every mode have the methods of the protocol."""
        for mode in (FreshRanks, PooledRanks, ThreadRanks, LocalTensorRanks, ExternalRanks):
            for name in ("join", "close", "how_the_server_ended"):
                with self.subTest(mode=mode, name=name):
                    self.assertTrue(callable(getattr(RunningRanks, name)))
                    self.assertTrue(callable(getattr(mode, name, None)))


if __name__ == "__main__":
    unittest.main()
