"""``RankSet``: the parent's side of the live ranks of one test: their sockets, pipes, signals and end.

    parent                          server                         rank r
      |  Launch + descriptors  ------> |                              |
      |                                |  fork (or exec) x N -------> |
      | <---- Launched(pids) --------- |                              |
      | <------------------------------------ channel: Report ------- |
      | <------------------------------------ output, stack dumps --- |
      |  Release -------------------------------------------------->  |
      | <----- Exited(rank, code) ---- | <------- _exit ------------- X
      | <----- Swept(leaked) --------- |

A ``RankSet`` owns everything on the left; closing it ends the ranks that still run.
"""

from __future__ import annotations

import contextlib
import math
import os
import select
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from harness.communication import call_log
from harness.errors import LaunchError, ServerLost
from harness.outcomes import RankOutcome
from harness.protocol import Launch, Launched, Refused, Release, Signal, decode, encode
from harness.ranks.deadlines import KILL_WAIT_S, crowding
from harness.system.control_group import MemoryKills
from harness.system.server_process import STOPPED, ServerProcess
from harness.wire import framed, recv_frame, send_fds, send_frame, socket_pair

# Descriptors that follow a Launch: the launch's socket, then four for each rank.
SHARED_FDS = 1
FDS_A_RANK = 4
# Seconds between two looks at a server that starts ranks: whether it is stopped.
LOOK_S = 1.0
# Seconds to wait while a peer does not read its full socket, since half a frame would be worse than none.
SEND_WAIT_S = 5.0


class DirtyModule(LaunchError):
    """Importing the test's module left threads in the server, so ranks must import the module themselves."""


class StartTimeout(LaunchError):
    """The test's module did not finish importing in time; the server that imports it is stuck."""


@dataclass(slots=True)
class RankLink:
    """The parent's descriptors for one rank: channel, output pipe, stack-dump pipe and collective log."""

    rank: int
    channel: socket.socket
    output: int
    stack: int
    log: int

    def close(self) -> None:
        """Closes the four descriptors."""
        self.channel.close()
        for fd in (self.output, self.stack, self.log):
            os.close(fd)


@dataclass(slots=True)
class _Remote:
    """The descriptors that are sent to the server, and closed here as soon as the server has them."""

    fds: list[int]

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())


class RankSet:
    """The live ranks of one test, and all of the parent's descriptors for them.

    A context manager: leaving it ends the ranks that still run, waits until they and the processes that they
    left are gone, and closes all descriptors.
    """

    def __init__(self, request: Launch, server: ServerProcess | None = None) -> None:
        """Opens the descriptors of all ranks, or none of them: OSError where there are not enough.

        ``server`` is the one that ``start`` will be called with, where this process holds it.
        """
        self._server = server
        self._memory_kills = MemoryKills.until_now()
        self.world_size = request.world_size
        self.turn = 0  # of pooled ranks: which of their tests they run, from 1
        self.pids: list[int] = []
        self.hosts: list[str] = []
        self.clock_offsets: list[float] = []
        self.links: list[RankLink] = []
        self.swept: list[str] | None = None
        self._attention: select.poll | None = None
        self.events, far_events = socket_pair()
        self._remote = _Remote([far_events.detach()])
        try:
            for rank in request.started_here:
                self._open_link(rank)
        except BaseException:
            self._close_descriptors()
            raise

    def _open_link(self, rank: int) -> None:
        with contextlib.ExitStack() as undo:
            near, far = (undo.enter_context(end) for end in socket_pair())
            output, output_far = _open_pipe(undo)
            stack, stack_far = _open_pipe(undo)
            log = call_log.memory_file(f"processes-{self.events.fileno()}", rank)
            undo.callback(os.close, log)
            log_far = os.dup(log)
            undo.pop_all()
        for fd in (output, stack):
            os.set_blocking(fd, False)
        near.setblocking(False)
        self._remote.fds += [far.detach(), output_far, stack_far, log_far]
        self.links.append(RankLink(rank, near, output, stack, log))

    def start(self, server: socket.socket, request: Launch, timeout_s: float | None = None) -> None:
        """Sends the request to a server and waits until the server reports that the ranks exist.

        ServerLost where the server has ended, DirtyModule or LaunchError where it refuses, StartTimeout where
        importing the test's module takes longer than ``timeout_s``.
        """
        try:
            send_frame(server, encode(request))
            send_fds(server, self._remote.fds)
        except OSError as error:
            raise ServerLost(f"the server that starts ranks is gone ({error})") from error
        finally:
            self._remote.close()
        self._wait_for_answer(request, timeout_s)
        frame = recv_frame(self.events)
        if frame is None:
            raise ServerLost("the server that starts ranks ended while it started them")
        answer = decode(frame)
        if isinstance(answer, Refused):
            raise (DirtyModule if answer.dirty else LaunchError)(answer.reason)
        assert isinstance(answer, Launched), answer
        self.pids, self.hosts, self.clock_offsets = answer.pids, answer.hosts, answer.clock_offsets

    def _wait_for_answer(self, request: Launch, timeout_s: float | None) -> None:
        """Waits until the server says something or ends, and looks whether it is stopped meanwhile."""
        until = math.inf if timeout_s is None else time.monotonic() + timeout_s
        answer = select.poll()
        answer.register(self.events, select.POLLIN)
        while not answer.poll(1000 * min(LOOK_S, max(0.0, until - time.monotonic()))):
            if self.end_stopped_server():
                raise ServerLost(f"the server that starts ranks was {STOPPED} while it started them")
            if time.monotonic() >= until:
                raise StartTimeout(
                    f"ranks did not start within {timeout_s:g} s: {request.module.name} is still importing"
                )

    def why_killed(self, code: int) -> str:
        """What is known of why a rank of this host may have ended with an exit code; "" for nothing."""
        return "" if self.hosts else self._memory_kills.explain(code)

    def located(self, outcome: RankOutcome) -> RankOutcome:
        """A rank's outcome with its host, and its start on this process's clock; the same on one host."""
        if not self.hosts:
            return outcome
        started = outcome.started_s
        if started is not None:
            started += self.clock_offsets[outcome.rank]
        return replace(outcome, host=self.hosts[outcome.rank], started_s=started)

    def end_stopped_server(self) -> bool:
        """Kills a server that is stopped, without which no rank can be signalled; whether that was so."""
        return self._server is not None and self._server.end_if_stopped()

    def poller(self) -> select.poll:
        """A poll object with all of the ranks' descriptors; a pooled set uses the same one for all tests."""
        if self._attention is None:
            self._attention = make_poller(self.events, self.links)
        return self._attention

    @property
    def closed(self) -> bool:
        """Whether ``close`` was called."""
        return self.events.fileno() < 0

    def signal(self, rank: int, signum: int, *, group: bool = False) -> None:
        """Makes the server signal a rank or its process group; does nothing where it has ended."""
        with contextlib.suppress(OSError):  # a server that has ended took its ranks with it
            send_whole(self.events, framed(encode(Signal(rank, int(signum), group))))

    def release(self, rank: int) -> None:
        """Lets a rank that has reported exit."""
        with contextlib.suppress(OSError):  # it may have died since
            send_whole(self.links[rank].channel, framed(encode(Release())))

    def close(self) -> None:
        """Ends the ranks that still run, waits for the server's sweep, and closes everything."""
        if self.closed:
            return
        if self.swept is None and self.pids:
            # Shutting down our sending side makes the server end the ranks by SIGKILL, so the wait depends
            # on the kernel and not on the ranks.
            with contextlib.suppress(OSError):
                self.events.shutdown(socket.SHUT_WR)
            self.wait_until_swept(crowding(self.world_size) * KILL_WAIT_S)
        self._close_descriptors()

    def _close_descriptors(self) -> None:
        self.events.close()
        self._remote.close()
        for link in self.links:
            link.close()

    def wait_until_swept(self, timeout_s: float) -> None:
        """Waits at most ``timeout_s`` seconds until every rank has ended and its socket is closed."""
        self.end_stopped_server()
        with contextlib.suppress(OSError):
            self.events.settimeout(timeout_s)
            while self.events.recv(65536):
                continue
            self.swept = self.swept or []


def make_poller(events: socket.socket, links: Sequence[RankLink]) -> select.poll:
    """A poll object that is ready when any descriptor can be read or its other end is closed."""
    poll = select.poll()
    for end in (events, *(end for link in links for end in (link.channel, link.output, link.stack))):
        poll.register(end, select.POLLIN)
    return poll


def _open_pipe(undo: contextlib.ExitStack) -> tuple[int, int]:
    ends = os.pipe()
    for fd in ends:
        undo.callback(os.close, fd)
    return ends


def send_whole(sock: socket.socket, data: bytes) -> None:
    """Sends a frame's bytes on a non-blocking socket, which other code reads when it is ready.

    OSError where the peer has ended or does not read.
    """
    try:
        sent = sock.send(data)
    except BlockingIOError:
        sent = 0
    if sent == len(data):
        return
    sock.settimeout(SEND_WAIT_S)
    try:
        sock.sendall(data[sent:])
    finally:
        sock.setblocking(False)


def remote_fd_count(request: Launch) -> int:
    """The number of descriptors that follow a Launch."""
    return SHARED_FDS + FDS_A_RANK * len(request.started_here)


def split_fds(fds: Sequence[int]) -> list[Sequence[int]]:
    """A Launch's descriptors behind the launch's socket: (channel, output, stack, log) by rank."""
    return [fds[i : i + FDS_A_RANK] for i in range(SHARED_FDS, len(fds), FDS_A_RANK)]
