"""Cases in which one rank fails or skips while the others wait for it."""

from __future__ import annotations

import os
import select
import time
import unittest

from suites.selftest.faults.base import FaultyCase

# Seconds. Nobody waits this long: the harness ends the sleeping ranks.
FOREVER_S = 3600.0


class Peers(FaultyCase):
    """Rank 1 goes wrong once the others are asleep; ranks 0 and 2 would wait for ever."""

    world_size = 3

    def while_asleep(self) -> bool:
        """Returns True in rank 1 once the others are about to sleep, and does not return in the others."""
        if self.rank == 1:
            self.hear("asleep-0")
            self.hear("asleep-2")
            return True
        self.tell(f"asleep-{self.rank}")
        time.sleep(FOREVER_S)
        return False

    def test_fails(self) -> None:
        """Rank 1 fails an assertion."""
        if self.while_asleep():
            self.fail("rank 1 will not play")

    def test_raises(self) -> None:
        """Rank 1 raises another exception."""
        if self.while_asleep():
            raise RuntimeError("rank 1 cannot play")

    def test_dies(self) -> None:
        """Rank 1 dies without a report."""
        if self.while_asleep():
            os._exit(4)

    def test_skips(self) -> None:
        """Rank 1 skips alone."""
        if self.while_asleep():
            raise unittest.SkipTest("not on rank 1")

    def test_cleanup_fails(self) -> None:
        """Rank 1 fails in a cleanup, after its method has passed."""
        if self.while_asleep():
            self.addCleanup(self.fail, "nothing was tidy")

    def test_dies_and_a_peer_notices(self) -> None:
        """Rank 1 dies, and rank 2 raises because of it, perhaps before anybody else knows."""
        if self.rank == 1:
            self.tell("pid", str(os.getpid()))
            self.hear("watched")
            os._exit(4)
        if self.rank == 2:
            rank_1 = os.pidfd_open(int(self.hear("pid")))
            self.tell("watched")
            select.select([rank_1], [], [])
            raise RuntimeError("Connection closed by peer [127.0.0.1]:29500")
