"""The rank's end of its channel to the parent; what ``_run`` and ``run_test`` get as their pipe."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import replace

from harness.errors import ProtocolError
from harness.outcomes import SubtestOutcome
from harness.protocol import Again, Launch, Passed, Release, Report, SubtestFailed, decode, encode, expect
from harness.ranks.result import RankResult
from harness.wire import FrameStream, send_frame

# As many sub-tests of a test that go wrong are told before its report. More than a verdict shows in full, and
# few enough not to fill the socket while the parent is still busy elsewhere.
MOST_SUBTESTS = 8


def _nothing() -> None:
    """For ranks that nobody looks over after their test."""


class RankChannel:
    """Keeps the rank's result until the rank is done, then reports it and waits for the others.

    ``send`` and ``close`` are there for code written against upstream's pipe: a traceback sent through it
    becomes the rank's error, closing changes nothing.
    """

    def __init__(self, sock: socket.socket, rank: int) -> None:
        self._sock = sock
        self._frames = FrameStream(sock)
        self._rank = rank
        self._pid = os.getpid()
        self._subtests = 0
        self.result: RankResult | None = None
        self.texts: list[str] = []
        self.kept: dict[str, object] = {}  # what a pooled rank keeps from test to test
        self.on_ready: Callable[[], None] = _nothing
        self.on_import: Callable[[], None] = _nothing

    def ready(self) -> None:
        """What the rank keeps is made now; what is left behind from here on is the test's."""
        self.on_ready()

    def imported(self) -> None:
        """The test's module is imported now; what that opened and started is none of the test's leavings."""
        self.on_import()

    def next_test(self) -> Launch | Again | None:
        """A pooled rank's next test; None when it is released, or its parent is gone."""
        self.result, self.texts, self._subtests = None, [], 0
        try:
            frame = self._frames.next()
            message = decode(frame) if frame is not None else None
        except (OSError, ProtocolError):
            return None
        return message if isinstance(message, Launch | Again) else None

    def record(self, result: RankResult) -> None:
        """Notes how the test went. The last word counts."""
        self.result = result

    def send(self, value: object) -> None:
        """Upstream's way to hand a traceback to the parent."""
        self.texts.append(str(value))

    def close(self) -> None:
        """Part of upstream's pipe; the channel stays open until the process ends."""

    def subtest_failed(self, subtest: SubtestOutcome) -> None:
        """Says at once that a sub-test went wrong: a rank that is ended later has no report to say it in."""
        in_child = os.getpid() != self._pid  # that the test forked: what it finds is not the rank's to say
        if in_child or self._subtests == MOST_SUBTESTS:
            return
        self._subtests += 1
        error = replace(subtest.error, pickled=None) if subtest.error is not None else None
        self._send(SubtestFailed(self._rank, replace(subtest, error=error)))

    def report(self, message: Report | Passed) -> None:
        """Says how the test went; a parent that is gone is nobody to tell."""
        self._send(message)

    def _send(self, message: SubtestFailed | Report | Passed) -> None:
        with contextlib.suppress(OSError):
            self._sock.setblocking(True)  # a test that made it otherwise must not cost half a report
            send_frame(self._sock, encode(message))

    def wait_for_release(self) -> None:
        """Returns when every rank has reported, or when the parent is gone."""
        with contextlib.suppress(OSError, ProtocolError):
            expect(self._frames.next(), Release)
