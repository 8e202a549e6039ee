"""What rank 1 does to the descriptors that it inherits: a table of abuses, which may harm rank 1 alone.

``ABUSES`` has them by name, with what has to come of each.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import gc
import math
import os
import re
import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from harness import RankOutcome, Status
from harness.communication.call_log import LOG_BYTES
from harness.outcomes import ErrorInfo, SubtestOutcome
from harness.protocol import Report, SubtestFailed, encode
from harness.ranks.processes.channel import RankChannel
from harness.wire import framed
from suites.selftest.faults.base import FaultyCase, hang

# The environment variable that names the abuse.
ABUSE = "SELFTEST_ABUSE"
# More than a pipe or a socket's buffer holds.
MUCH = 4 << 20


@dataclass(frozen=True, slots=True)
class Abuse:
    """What rank 1 does to a descriptor, and its test's verdict: ``words`` of an error, or none for a pass.

    ``hangs`` says that only the deadline, or a grace of ranks, ends rank 1.
    """

    descriptor: str
    commit: Callable[[Abuses], None]
    words: tuple[str, ...] = ()
    hangs: bool = False


class Abuses(FaultyCase):
    """Rank 1 commits the abuse that the environment names, once rank 0 has nothing left to do."""

    def test_abuse(self) -> None:
        """Commits the abuse."""
        if self.rank == 0:
            self.tell("here")
        else:
            self.hear("here")
        if self.arrivals:
            self.arrive()
        if self.rank == 1:
            ABUSES[os.environ[ABUSE]].commit(self)

    def test_none(self) -> None:
        """Passes: the test after one with an abuse."""

    def test_failing(self) -> None:
        """Fails in rank 1: the test after one whose report was sent for it, and which goes on."""
        self.assertEqual(self.rank, 0)

    def test_held(self) -> None:
        """Prints what each rank's descriptors are open on, without the numbers of pipes and sockets."""
        for fd in os.listdir("/proc/self/fd"):
            with contextlib.suppress(FileNotFoundError):  # the listing's own
                print("holds", re.sub(r":\[\d+\]", "", os.readlink(f"/proc/self/fd/{fd}")))


class HangingAbuses(Abuses):
    """The same for an abuse after which rank 1 does not come back: the deadline starts when it begins."""

    arrivals = 2


def find(beginning: str, but: str = "") -> int:
    """The descriptor above 2 of this rank that is open on a file whose name begins so, and is not ``but``."""
    for fd in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(FileNotFoundError):
            name = os.readlink(f"/proc/self/fd/{fd}")
            if fd > 2 and name.startswith(beginning) and name != but:
                return fd
    raise AssertionError(f"no {beginning}")


def channel() -> socket.socket:
    """The rank's channel, the only socket that a rank has."""
    return socket.socket(fileno=os.dup(find("socket:")))


def log() -> int:
    """The memory file of the rank's call log."""
    return find("/memfd:harness-calls")


def stack() -> int:
    """The rank's stack-dump pipe: the pipe on which it does not print."""
    return find("pipe:", but=os.readlink("/proc/self/fd/1"))


def _sends(data: bytes) -> Callable[[Abuses], None]:
    """Writes bytes to the channel."""
    return lambda case: channel().sendall(data)


def _sends_without_end(case: Abuses) -> None:
    channel().sendall(framed(bytes(200 << 20)))


def _report(rank: int, status: Status = Status.PASSED, **fields: Any) -> bytes:
    """The frame of a report."""
    return framed(encode(Report(RankOutcome(rank, status, **fields))))


def _floods(data: bytes) -> Callable[[Abuses], None]:
    """Writes the same bytes to the channel until that fails, which it does not while the parent reads."""

    def commit(case: Abuses) -> None:
        sock = channel()
        while True:
            sock.sendall(data)

    return commit


def _sends_descriptors(case: Abuses) -> None:
    """Sends the parent a hundred descriptors beside the first byte of a frame, again and again."""
    sock, own = channel(), array.array("i", [0] * 100)
    for byte in framed(encode(Report(RankOutcome(1, Status.PASSED)))):
        sock.sendmsg([bytes([byte])], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, own)])


def _prints_and_hangs(case: Abuses) -> None:
    channel().sendall(b"hello, who is there?")
    hang()


def _announces(case: Abuses) -> None:
    channel().sendall(struct.pack(">I", 1 << 20))


def _announces_and_hangs(case: Abuses) -> None:
    _announces(case)
    hang()


def _reports_and_fails(case: Abuses) -> None:
    channel().sendall(_report(1))
    case.fail("the truth")


def _reports_ahead(case: Abuses) -> None:
    """Reports as the rank would, and comes to its end when its parent has gone on."""
    (own,) = (each for each in gc.get_objects() if isinstance(each, RankChannel))
    own.report(Report(RankOutcome(1, Status.PASSED)))
    time.sleep(0.5)


def _reports_much_without_blocking(case: Abuses) -> None:
    """Makes the channel non-blocking before a report of a megabyte."""
    flags = fcntl.fcntl(channel(), fcntl.F_GETFL)
    fcntl.fcntl(channel(), fcntl.F_SETFL, flags | os.O_NONBLOCK)
    for n in range(2000):
        with case.subTest("x" * 500, n=n):
            case.assertGreaterEqual(n, 0)


def _shuts_down(how: int) -> Callable[[Abuses], None]:
    return lambda case: channel().shutdown(how)


def _over_the_channel(case: Abuses) -> None:
    """Opens /dev/null in the place of the channel."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, find("socket:"))


def _overwrites_log(case: Abuses) -> None:
    os.pwrite(log(), b"\xff" * LOG_BYTES, 0)


def _floods_output(case: Abuses) -> None:
    os.write(1, b"\xff\0" * (MUCH // 2))


def _closes_output(case: Abuses) -> None:
    os.close(1)
    os.close(2)


def _garbles_stack(case: Abuses) -> None:
    os.write(stack(), b'Thread 0x\xff (most recent call first):\n  File "\n' * (MUCH // 64))


def _garbles_stack_and_hangs(case: Abuses) -> None:
    _garbles_stack(case)
    hang()


def _closes_stack_and_hangs(case: Abuses) -> None:
    os.close(stack())
    hang()


def _removes_rendezvous(case: Abuses) -> None:
    os.remove(case.file_name)


def _directory_for_rendezvous(case: Abuses) -> None:
    os.remove(case.file_name)
    os.mkdir(case.file_name)


_SUBTEST = framed(encode(SubtestFailed(1, SubtestOutcome(None, (), Status.FAILED, ErrorInfo("E", "m", "t")))))
_NO_REPORT = ("rank 1", "channel", "no report")
_CRASHED = ("rank 1 crashed",)
_FORBIDDEN = ("rank 1 raised: PermissionError",)
_HUNG = ("rank 1 timed out",)

ABUSES: dict[str, Abuse] = {
    "prints on its channel": Abuse("channel", _sends(b"hello, who is there?"), _NO_REPORT),
    "prints on its channel and hangs": Abuse("channel", _prints_and_hangs, _NO_REPORT),
    "closes its channel": Abuse("channel", lambda case: os.close(find("socket:")), _CRASHED),
    "ends its writing": Abuse("channel", _shuts_down(socket.SHUT_WR), _CRASHED),
    "ends its reading": Abuse("channel", _shuts_down(socket.SHUT_RD)),
    "ends its channel": Abuse("channel", _shuts_down(socket.SHUT_RDWR), _CRASHED),
    "makes its channel non-blocking": Abuse("channel", _reports_much_without_blocking),
    "opens another file in its channel's place": Abuse("channel", _over_the_channel, _CRASHED),
    "announces two gigabytes": Abuse("channel", _sends(struct.pack(">I", 2 << 30)), _NO_REPORT),
    "sends a message without end": Abuse("channel", _sends_without_end, _NO_REPORT),
    "announces a message": Abuse("channel", _announces, _NO_REPORT, hangs=True),
    "announces a message and hangs": Abuse("channel", _announces_and_hangs, _NO_REPORT, hangs=True),
    "sends descriptors": Abuse("channel", _sends_descriptors),
    "sends JSON without end": Abuse("channel", _sends(framed(b"[" * 100_000)), _NO_REPORT),
    "sends bytes that are no text": Abuse("channel", _sends(framed(b"\xff\xfe{}")), _NO_REPORT),
    "sends a number of a million digits": Abuse("channel", _sends(framed(b"9" * 1_000_000)), _NO_REPORT),
    "sends the server's word": Abuse(
        "channel", _sends(framed(b'{"kind": "Swept", "leaked": []}')), _NO_REPORT
    ),
    "reports for rank 0": Abuse("channel", _sends(_report(0)), _NO_REPORT),
    "reports an endless duration": Abuse("channel", _sends(_report(1, duration_s=math.inf)), _NO_REPORT),
    "reports that it was ended": Abuse("channel", _sends(_report(1, status=Status.ENDED)), _NO_REPORT),
    "reports a pass and fails": Abuse("channel", _reports_and_fails, ("rank 1",)),
    "reports a pass ahead of its end": Abuse("channel", _reports_ahead),
    "floods its channel with empty messages": Abuse("channel", _floods(bytes(4)), _NO_REPORT),
    "floods its channel with failed sub-tests": Abuse("channel", _floods(_SUBTEST), _NO_REPORT),
    "floods its channel with reports": Abuse("channel", _floods(_report(1)), _NO_REPORT, hangs=True),
    "shrinks its log": Abuse("call log", lambda case: os.ftruncate(log(), 0), _FORBIDDEN),
    "grows its log": Abuse("call log", lambda case: os.ftruncate(log(), 1 << 40), _FORBIDDEN),
    "overwrites its log": Abuse("call log", _overwrites_log),
    "closes its log": Abuse("call log", lambda case: os.close(log())),
    "floods its output": Abuse("output pipe", _floods_output),
    "closes its output": Abuse("output pipe", _closes_output),
    "floods its stack pipe": Abuse("stack-dump pipe", _garbles_stack),
    "floods its stack pipe and hangs": Abuse("stack-dump pipe", _garbles_stack_and_hangs, _HUNG, hangs=True),
    "closes its stack pipe and hangs": Abuse("stack-dump pipe", _closes_stack_and_hangs, _HUNG, hangs=True),
    "removes the rendezvous file": Abuse("rendezvous file", _removes_rendezvous),
    "makes the rendezvous file a directory": Abuse("rendezvous file", _directory_for_rendezvous),
    "closes every descriptor": Abuse("all", lambda case: os.closerange(3, 1000), _CRASHED),
}
