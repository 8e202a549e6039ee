"""Tests the quick way for kept ranks: if all pass quietly no supervisor is needed; all else goes to it."""

from __future__ import annotations

import signal
import time
import unittest
from collections.abc import Callable
from typing import Any
from unittest import mock

from harness.outcomes import RankOutcome, Status
from harness.protocol import Passed, Release, Report, encode
from harness.ranks.job import JobResult
from harness.ranks.processes import fast_path
from harness.ranks.processes.fast_path import CollectedReports, await_passes
from harness.ranks.processes.mode import supervise
from harness.settings import Settings
from harness.wire import framed
from suites.selftest.ranks.processes.played import Played

SOON_S = 0.01
TOO_SHORT = encode(Passed(0, 0.0, 0.0, 1))[:-1]


class ListenTest(unittest.TestCase):
    """Listening to two played ranks."""

    def setUp(self) -> None:
        self.ranks = Played(2)
        self.addCleanup(self.ranks.close)

    def listen(self, for_s: float = 60.0) -> CollectedReports:
        """Listens to both ranks."""
        ranks: Any = self.ranks  # stands in for a RankSet
        return await_passes(ranks, time.monotonic() + for_s)

    def watch(self, settings: Settings) -> JobResult:
        """Supervises them as kept ranks."""
        ranks: Any = self.ranks
        return supervise(ranks, "a.test", settings, keep=True)

    def test_all_pass(self) -> None:
        """Outcomes come by rank, each with the position of its report in the order of arrival."""
        self.ranks.says(1, Status.PASSED, left=("a thread",))
        self.ranks.says(0, Status.PASSED)
        outcomes = self.listen().outcomes
        assert outcomes is not None
        self.assertEqual([o.rank for o in outcomes], [0, 1])
        self.assertEqual({o.order for o in outcomes}, {0, 1})
        self.assertEqual(outcomes[1].left, ("a thread",))
        self.assertEqual([o.pid for o in outcomes], self.ranks.pids)

    def test_passes_in_short(self) -> None:
        """A short report of a pass counts, but its process id is not believed."""
        for rank in (0, 1):
            self.ranks.sends(rank, encode(Passed(rank, 0.5, 7.5, 4711)))
        outcomes = self.listen().outcomes
        assert outcomes is not None
        times = [(o.rank, o.duration_s, o.started_s) for o in outcomes]
        self.assertEqual(times, [(0, 0.5, 7.5), (1, 0.5, 7.5)])
        self.assertEqual([o.pid for o in outcomes], self.ranks.pids)

    def test_listens_again(self) -> None:
        """Kept ranks can be listened to again, and a rank that dies after its report is noticed."""
        for _ in range(2):
            for rank in (1, 0):
                self.ranks.says(rank, Status.PASSED)
            self.assertIsNotNone(self.listen().outcomes)
        self.ranks.says(0, Status.PASSED)
        self.ranks.hangs_up(0)
        self.assertIsNone(self.listen(SOON_S).outcomes)

    def test_whatever_else_happens(self) -> None:
        """Anything but a pass of all ranks is left to the supervisor, and nothing a rank said is lost."""
        passed = encode(Report(RankOutcome(0, Status.PASSED)))
        deeds: dict[str, Callable[[Played], None]] = {
            "output": lambda r: r.prints(0, b"something"),
            "a stack": lambda r: r.dumps(0, b"File"),
            "a death": lambda r: r.exits(0, 0),
            "the server's death": lambda r: r.server_dies(),
            "a failure": lambda r: r.says(0, Status.FAILED),
            "a skip": lambda r: r.says(0, Status.SKIPPED),
            "nonsense": lambda r: r.sends(0, b"nonsense"),
            "another message": lambda r: r.sends(0, encode(Release())),
            "another rank's report in short": lambda r: r.sends(0, encode(Passed(1, 0.0, 0.0, 1))),
            "another test's report in short": lambda r: r.sends(0, encode(Passed(0, 0.0, 0.0, 1, 7))),
            "another test's report": lambda r: r.sends(0, encode(Report(RankOutcome(0, Status.PASSED), 7))),
            "a report in short that lacks a byte": lambda r: r.sends(0, TOO_SHORT),
            "another rank's report": lambda r: r.says_as(0, 1, Status.PASSED),
            "half a report": lambda r: r.writes(0, framed(passed)[:-1]),
            "more than a report": lambda r: r.writes(0, framed(passed) + b"\0"),
            "two reports": lambda r: r.writes(0, framed(passed) * 2),
            "the channel's end": lambda r: r.hangs_up(0),
            "silence": lambda r: None,
        }
        for name, deed in deeds.items():
            with self.subTest(name):
                ranks = self.ranks = Played(2)
                self.addCleanup(ranks.close)
                ranks.says(1, Status.PASSED)
                deed(ranks)
                heard = self.listen(SOON_S)
                self.assertIsNone(heard.outcomes)
                rest = {link.rank: _rest(link.channel) for link in ranks.links}
                for rank, data in heard.data.items():
                    rest[rank] = bytes(data) + rest[rank]
                self.assertEqual(rest[1], framed(encode(Report(RankOutcome(1, Status.PASSED)))))

    def test_output_after_which_all_pass(self) -> None:
        """Output that came before the last report is left to the supervisor."""
        self.ranks.prints(0, b"printed")
        self.ranks.says(0, Status.PASSED)
        self.ranks.says(1, Status.PASSED)
        self.assertIsNone(self.listen().outcomes)

    def test_supervisor_goes_on_with_what_was_heard(self) -> None:
        self.ranks.says(0, Status.PASSED)
        self.ranks.says(1, Status.FAILED)
        outcomes = self.watch(Settings()).outcomes
        self.assertEqual([o.status for o in outcomes], [Status.PASSED, Status.FAILED])

    def test_ctrl_c(self) -> None:
        """Ctrl-C is left to the supervisor, together with the reports that had come."""
        self.ranks.says(0, Status.PASSED)
        self.ranks.on[(1, signal.SIGTERM)] = lambda: self.ranks.exits(1, -signal.SIGTERM)
        self.ranks.on[(0, "release")] = lambda: self.ranks.exits(0, 0)
        with mock.patch.object(fast_path, "_passes", side_effect=KeyboardInterrupt):
            watched = self.watch(Settings())
        self.assertTrue(watched.interrupted)
        self.assertEqual([o.status for o in watched.outcomes], [Status.PASSED, Status.ENDED])


def _rest(channel: Any) -> bytes:
    try:
        return bytes(channel.recv(1 << 16))
    except BlockingIOError:
        return b""


if __name__ == "__main__":
    unittest.main()
