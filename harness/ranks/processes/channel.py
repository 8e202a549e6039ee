"""``RankChannel``: how a rank process sends reports to the parent; ``_run`` gets it as upstream's pipe."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from dataclasses import replace
from typing import NoReturn

from harness.errors import ProtocolError
from harness.outcomes import SubtestOutcome
from harness.protocol import (
    Launch,
    Passed,
    Release,
    RepeatLaunch,
    Report,
    SubtestFailed,
    decode,
    encode,
    expect,
)
from harness.ranks.result import RankResult
from harness.system import originals
from harness.system.python_warnings import with_warning
from harness.wire import FrameStream, send_frame

# How many failed sub-tests of one test are sent before its report: more than a verdict shows in full, and few
# enough not to fill the socket while the parent does not read. The parent takes no more of them.
MOST_SUBTESTS = 8


def _nothing() -> None:
    """The callback of a fresh rank, which no leak guard checks after its test."""


class RankChannel:
    """Stores the rank's result until the rank reports it, and then waits until the parent releases the rank.

    ``send``, ``close`` and what a thread needs that waits for the parent exist for code that was written for
    upstream's pipe: a traceback sent by ``send`` becomes the rank's error, ``close`` does nothing, and the
    parent asks for nothing while a test runs.
    """

    closed = False

    def __init__(self, sock: socket.socket, rank: int) -> None:
        self._sock = sock
        self._frames = FrameStream(sock)
        self._rank = rank
        self._pid = os.getpid()
        self._subtests = 0
        self._turn = 0
        self._reported = True
        self.result: RankResult | None = None
        self.texts: list[str] = []
        self.warned: tuple[str, ...] = ()
        self.goes_on = False  # whether the rank goes on after the test; set by one that does
        self.kept: dict[str, object] = {}  # what a pooled rank keeps from test to test
        self.patches = originals.TestPatches(originals.restore())
        self.on_ready: Callable[[], None] = _nothing
        self.on_import: Callable[[], None] = _nothing

    def ready(self) -> None:
        """Marks the point after which everything left behind in the process counts as the test's leak."""
        self.on_ready()

    def imported(self) -> None:
        """Marks the end of the module's import: what it opened, started or patched is not the test's leak."""
        self.patches.accept_import()
        self.on_import()

    def next_test(self) -> Launch | RepeatLaunch | None:
        """Waits for a pooled rank's next test; None when the rank is released or the parent has ended.

        A rank whose report could not be sent gets no further test.
        """
        if not self._reported:
            return None
        self.result, self.texts, self.warned, self._subtests = None, [], (), 0
        try:
            frame = self._frames.next()
            message = decode(frame) if frame is not None else None
        except (OSError, ProtocolError):
            return None
        self._turn += 1
        return message if isinstance(message, Launch | RepeatLaunch) else None

    def record(self, result: RankResult) -> None:
        """Stores the test's result; a later call replaces an earlier one."""
        self.result = result

    def send(self, value: object) -> None:
        """Stores a traceback, which upstream's ranks send to the parent this way."""
        self.texts.append(str(value))

    def take_warning(self, line: str) -> None:
        """Stores a Python warning of the test, which the report tells."""
        self.warned = with_warning(self.warned, line)

    def close(self) -> None:
        """Does nothing: upstream's pipe has this method, but the channel is open until the process ends."""

    def fileno(self) -> int:
        """The descriptor on which a thread can wait, as for upstream's pipe."""
        return self._sock.fileno()

    def recv(self) -> NoReturn:
        """Raises EOFError: what a waiting thread finds is that the parent has ended."""
        raise EOFError

    def subtest_failed(self, subtest: SubtestOutcome) -> None:
        """Sends a failed sub-test to the parent at once, since a rank that is ended later sends no report."""
        in_child = os.getpid() != self._pid  # a process that the test forked must not report for the rank
        if in_child or self._subtests == MOST_SUBTESTS:
            return
        self._subtests += 1
        error = replace(subtest.error, pickled=None) if subtest.error is not None else None
        self._send(SubtestFailed(self._rank, replace(subtest, error=error)))

    def report(self, message: Report | Passed) -> None:
        """Sends the rank's report to the parent; does nothing where the parent has ended."""
        self._reported = self._send(message)

    def _send(self, message: SubtestFailed | Report | Passed) -> bool:
        try:
            self._sock.setblocking(True)  # the test may have changed it, and the report must be sent whole
            send_frame(self._sock, encode(replace(message, turn=self._turn) if self._turn else message))
        except OSError:
            return False
        return True

    def wait_for_release(self) -> None:
        """Returns when the parent releases the rank (all ranks have reported) or has ended.

        A rank whose report could not be sent is never released, and so does not wait.
        """
        if not self._reported:
            return
        with contextlib.suppress(OSError, ProtocolError):
            expect(self._frames.next(), Release)
