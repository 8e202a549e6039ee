"""Ranks that go wrong after their test is over, or because of the harness and not of the test."""

from __future__ import annotations

import atexit
import os
import signal
import time
import unittest
from typing import Any

from suites.selftest.faults.base import FaultyCase, announce


class SkipsThenRaises(FaultyCase):
    """Its ``_run`` override fails in rank 1 after the test has skipped."""

    @classmethod
    def _run(cls, rank: int, test_name: str, file_name: str, parent_pipe: Any, **kwargs: Any) -> None:
        try:
            super()._run(rank, test_name, file_name, parent_pipe, **kwargs)
        finally:
            if rank == 1:
                raise RuntimeError("after the skip")

    def test_skips(self) -> None:
        raise unittest.SkipTest("not today")


class DiesAfterwards(FaultyCase):
    """Rank 1 dies in an exit handler, after it has been released."""

    def setUpRank(self) -> None:
        if self.rank == 1:
            atexit.register(os.kill, os.getpid(), signal.SIGSEGV)

    def test_passes(self) -> None:
        pass

    def test_skips(self) -> None:
        raise unittest.SkipTest("not today")


class LeavesSlowly(FaultyCase):
    """Rank 0 passes and hangs at exit, rank 1 fails, and rank 2 hangs and ignores SIGTERM."""

    world_size = 3
    arrivals = 3

    def test_rows(self) -> None:
        if self.rank == 0:
            atexit.register(time.sleep, 3600)
            self.leave()
        elif self.rank == 1:
            self.follow()
            self.fail("the real cause")
        else:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self.arrive()
            time.sleep(3600)


class ExpectsToFail(FaultyCase):
    """Tests that expect a failure, which a lost server must not count as."""

    @unittest.expectedFailure
    def test_kills_server(self) -> None:
        announce(os.getpid())
        if self.rank == 0:
            self.hear("announced")
            os.kill(os.getppid(), signal.SIGKILL)
        self.tell("announced")
        time.sleep(3600)

    @unittest.expectedFailure
    def test_fails(self) -> None:
        self.fail("as expected")


class ExpectsOfNobody(ExpectsToFail):
    """A case that expects a failure but can start no rank."""

    world_size = 0
