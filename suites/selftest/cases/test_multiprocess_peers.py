"""Tests that a rank which goes wrong is the cause, and that the ranks which wait for it are collateral."""

from __future__ import annotations

import unittest

from harness import Status
from suites.selftest.faults import peers
from suites.selftest.faults.rows import IMPATIENT, OnForkedInterpreters, OnForkServer, Rows


class PeerRows(Rows):
    """Rank 1 goes wrong while ranks 0 and 2 sleep for an hour."""

    def peers(self, method: str, verdict: str, status: Status, *said: str) -> None:
        """Checks that rank 1 is the cause and that the sleeping ranks are ended after the grace."""
        played = self.play(peers.Peers, method, **IMPATIENT)
        self.check(played, verdict, status, *said, collateral=(0, 2))
        self.assertIn("ranks 0, 2", played.text, "what the others were doing")
        for words in ("rank 0 timed out", "rank 2 timed out", "rank 0 crashed", "rank 2 crashed"):
            self.assertNotIn(words, played.text)
        self.assertIn("while_asleep", played.rank(0).stack)

    def test_fails(self) -> None:
        """A rank that fails is a FAIL with the assertion's line."""
        self.peers("test_fails", "FAIL", Status.FAILED, "rank 1 failed", "rank 1 will not play", "peers.py")

    def test_raises(self) -> None:
        """A rank that raises is an ERROR."""
        self.peers("test_raises", "ERROR", Status.ERROR, "rank 1 raised: RuntimeError: rank 1 cannot play")

    def test_dies(self) -> None:
        """A rank that dies is an ERROR with its exit code."""
        self.peers("test_dies", "ERROR", Status.CRASHED, "rank 1 crashed: exit code 4")

    def test_skips(self) -> None:
        """A divergent skip is an error that names both sides, and no sleeping rank is a failure."""
        self.peers("test_skips", "ERROR", Status.ERROR, "divergent skip: rank 1 skipped (not on rank 1)")

    def test_cleanup_fails(self) -> None:
        """A rank that fails in a cleanup is a FAIL, because a cleanup in a rank is part of its test."""
        self.peers("test_cleanup_fails", "FAIL", Status.FAILED, "rank 1 failed", "nothing was tidy")

    def test_dies_and_a_peer_notices(self) -> None:
        """The dead rank is the cause and not the peer that lost it, whichever is heard first."""
        played = self.play(peers.Peers, "test_dies_and_a_peer_notices")
        self.check(
            played, "ERROR", Status.CRASHED, "rank 1 crashed: exit code 4", "Connection closed by peer"
        )


class PeersOnForkServer(PeerRows, OnForkServer):
    """Runs the tests on the fork server."""


class PeersOnSpawn(PeerRows, OnForkedInterpreters):
    """Runs the tests on forks of an interpreter."""


if __name__ == "__main__":
    unittest.main()
