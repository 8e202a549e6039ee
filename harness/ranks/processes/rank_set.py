"""``RankSet``: the live ranks of one test, and every descriptor by which the parent knows them.

    parent                          server                         rank r
      |  Launch + descriptors  ------> |                              |
      |                                |  fork (or exec) x N -------> |
      | <----- Started(pids) --------- |                              |
      | <------------------------------------ channel: Report ------- |
      | <------------------------------------ output, stack dumps --- |
      |  Release -------------------------------------------------->  |
      | <----- Exited(rank, code) ---- | <------- _exit ------------- X
      | <----- Swept(leaked) --------- |

Everything on the left is owned by a ``RankSet``; closing it ends whatever still runs.
"""

from __future__ import annotations

import contextlib
import mmap
import os
import select
import socket
import types
from collections.abc import Sequence
from dataclasses import dataclass

from harness.communication import collective_log
from harness.errors import LaunchError, ServerLost
from harness.protocol import Launch, Launched, Refused, Release, Signal, decode, encode
from harness.ranks.deadlines import KILL_WAIT_S
from harness.wire import framed, recv_frame, send_fds, send_frame

# Descriptors that follow a Launch: the launch's socket and the collective log, then three a rank.
SHARED_FDS = 2
FDS_A_RANK = 3
# A peer that leaves a full socket unread for this long is stuck; half a frame would be worse than none.
SEND_WAIT_S = 5.0


class DirtyModule(LaunchError):
    """Importing the test's module left threads in the server: ranks must import it themselves."""


class StartTimeout(LaunchError):
    """The test's module did not finish importing in time; the server that imports it is stuck."""


@dataclass(slots=True)
class RankLink:
    """The parent's ends for one rank: its channel, what it prints, and its stack dumps."""

    rank: int
    channel: socket.socket
    output: int
    stack: int

    def close(self) -> None:
        """Closes the three descriptors."""
        self.channel.close()
        os.close(self.output)
        os.close(self.stack)


@dataclass(slots=True)
class _Remote:
    """The ends that travel: closed here as soon as the server has them."""

    fds: list[int]

    def close(self) -> None:
        while self.fds:
            os.close(self.fds.pop())


class RankSet:
    """The live ranks of one test, and every descriptor by which the parent knows them.

    A context manager: leaving it ends the ranks that still run, waits until they and their leftovers are
    gone, and closes all descriptors.
    """

    def __init__(self, request: Launch) -> None:
        """OSError where there are not enough descriptors; none is left open then."""
        self.world_size = request.world_size
        self.pids: list[int] = []
        self.links: list[RankLink] = []
        self.swept: list[str] | None = None
        self._attention: select.poll | None = None
        self.events, far_events = socket.socketpair()
        self._remote = _Remote([far_events.detach()])
        try:
            self.log = self._open_log()
            for rank in range(request.world_size):
                self._open_link(rank)
        except BaseException:
            self._close_descriptors()
            raise

    def _open_log(self) -> mmap.mmap:
        memory = os.memfd_create("harness-collectives")
        self._remote.fds.append(memory)
        os.ftruncate(memory, collective_log.size(self.world_size))
        return mmap.mmap(memory, collective_log.size(self.world_size))

    def _open_link(self, rank: int) -> None:
        with contextlib.ExitStack() as undo:
            near, far = (undo.enter_context(end) for end in socket.socketpair())
            output, output_far = _open_pipe(undo)
            stack, stack_far = _open_pipe(undo)
            undo.pop_all()
        for fd in (output, stack):
            os.set_blocking(fd, False)
        near.setblocking(False)
        self._remote.fds += [far.detach(), output_far, stack_far]
        self.links.append(RankLink(rank, near, output, stack))

    def start(self, server: socket.socket, request: Launch, timeout_s: float | None = None) -> None:
        """Hands the request to a server and waits until it says that the ranks exist.

        ServerLost where the server is gone, DirtyModule or LaunchError where it refuses or where importing
        the test's module takes longer than ``timeout_s``.
        """
        try:
            send_frame(server, encode(request))
            send_fds(server, self._remote.fds)
        except OSError as error:
            raise ServerLost(f"the server that starts ranks is gone ({error})") from error
        finally:
            self._remote.close()
        self.events.settimeout(timeout_s)
        try:
            frame = recv_frame(self.events)
        except TimeoutError:
            raise StartTimeout(
                f"ranks did not start within {timeout_s:g} s: {request.module.name} is still importing"
            ) from None
        if frame is None:
            raise ServerLost("the server that starts ranks ended while it started them")
        answer = decode(frame)
        if isinstance(answer, Refused):
            raise (DirtyModule if answer.dirty else LaunchError)(answer.reason)
        assert isinstance(answer, Launched), answer
        self.pids = answer.pids

    def attention(self) -> select.poll:
        """Everything by which the parent hears of the ranks, to wait on: one for all tests of a kept set."""
        if self._attention is None:
            self._attention = attend(self.events, self.links)
        return self._attention

    @property
    def closed(self) -> bool:
        """True after ``close``."""
        return self.events.fileno() < 0

    def signal(self, rank: int, signum: int, *, group: bool = False) -> None:
        """Has the server signal a rank, or its whole process group; nothing happens to one that is gone."""
        with contextlib.suppress(OSError):  # a server that is gone has taken its ranks with it
            send_whole(self.events, framed(encode(Signal(rank, int(signum), group))))

    def release(self, rank: int) -> None:
        """Lets a rank that has reported go on to its end."""
        with contextlib.suppress(OSError):  # it may have died since
            send_whole(self.links[rank].channel, framed(encode(Release())))

    def __enter__(self) -> RankSet:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Ends what still runs, waits for the server's word that all is swept, closes everything."""
        if self.closed:
            return
        if self.swept is None and self.pids:
            # Shutting down our sending side tells the server to end the ranks, with SIGKILL: the wait is
            # bounded by the kernel, not by them.
            with contextlib.suppress(OSError):
                self.events.shutdown(socket.SHUT_WR)
            self.wait_until_swept(KILL_WAIT_S)
        self._close_descriptors()
        self.log.close()

    def _close_descriptors(self) -> None:
        self.events.close()
        self._remote.close()
        for link in self.links:
            link.close()

    def wait_until_swept(self, timeout_s: float) -> None:
        """Waits until every rank is gone: the server closes its end then. ``timeout_s`` at most."""
        with contextlib.suppress(OSError):
            self.events.settimeout(timeout_s)
            while self.events.recv(65536):
                continue
            self.swept = self.swept or []


def attend(events: socket.socket, links: Sequence[RankLink]) -> select.poll:
    """What waits until any of the descriptors has something to read, or its other end is gone."""
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
    """Sends a frame's bytes on a socket that is not blocking, because others read from it when it is ready;
    OSError where the peer is gone or does not read."""
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


def remote_fd_count(world_size: int) -> int:
    """How many descriptors follow a Launch."""
    return SHARED_FDS + FDS_A_RANK * world_size


def split_fds(fds: Sequence[int]) -> tuple[int, int, list[tuple[int, int, int]]]:
    """Launch socket, collective log, and (channel, output, stack) by rank, out of a Launch's descriptors."""
    per_rank = [(fds[i], fds[i + 1], fds[i + 2]) for i in range(SHARED_FDS, len(fds), FDS_A_RANK)]
    return fds[0], fds[1], per_rank
