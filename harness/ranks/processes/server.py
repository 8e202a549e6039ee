"""The server process: starts ranks, reports their ends, and leaves nothing of them behind.

It is the parent of every rank, adopts whatever their deaths orphan, and dies with the process that
started it; when it dies itself, its ranks die with it. One thread, one selector, no time-outs of its own:
when to end ranks is the supervisor's decision.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import os
import selectors
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import partial

from harness.errors import ProtocolError
from harness.protocol import Assignment, Launch, Launched, Refused, Release, Signal, Swept, decode
from harness.ranks.processes import module_import, preload
from harness.ranks.processes.launched_ranks import LaunchedRanks
from harness.ranks.processes.rank_set import remote_fd_count, split_fds
from harness.system import huge_pages, posix
from harness.system.fork_safety import misses_no_thread
from harness.system.reaper import Reaper
from harness.system.server_process import Parent
from harness.wire import read_available, recv_fds, recv_frame

# Starts the process of one rank, by fork or exec: (its assignment, descriptors to close) -> process id.
StartRank = Callable[[Assignment, Sequence[int]], int]


class Server:
    """The loop of a server process; ``run`` returns when the parent has closed its end of ``control``."""

    def __init__(self, control: socket.socket, start_rank: StartRank, *, preload: bool) -> None:
        self._control = control
        self._start_rank = start_rank
        self._preload = preload
        self._selector = selectors.DefaultSelector()
        self._launches: list[LaunchedRanks] = []
        self._reaper = Reaper()
        self._pid = os.getpid()
        self._scratch: str | None = None  # the parent's, which may be killed before it can remove it
        self._dismissed = False
        self._stopping = self._importing = False
        self._wakeup: tuple[socket.socket, ...] = ()
        self._started = 0
        self._collapsed = False

    def run(self) -> None:
        """Serves until the parent is gone, then ends every rank."""
        self._selector.register(self._control, selectors.EVENT_READ, self._take_request)
        self._listen_for_signals()
        try:
            while self._control.fileno() >= 0 and not self._stopping:
                self.step()
        finally:
            self._end_everything()
            if self._scratch is not None and not self._is_dismissed():
                shutil.rmtree(self._scratch, ignore_errors=True)

    def step(self) -> None:
        """Waits until something happens, and sees to it."""
        for key, _ in self._selector.select():
            key.data()

    def _listen_for_signals(self) -> None:
        """SIGTERM, which is also how the parent's death is told, ends the loop between two of its steps, so
        that no step is left half done; only an import, which may never end, is broken off."""
        readable, writable = self._wakeup = socket.socketpair()
        for end in self._wakeup:
            end.setblocking(False)
        self._selector.register(readable, selectors.EVENT_READ, lambda: readable.recv(64))
        signal.set_wakeup_fd(writable.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, signum: int, frame: object) -> None:
        self._stopping = True
        if self._importing:
            raise SystemExit(0)

    def _is_dismissed(self) -> bool:
        """True where the parent needs no cleaning up by us; its word may wait behind the request that an
        import was part of."""
        if not self._dismissed and self._control.fileno() >= 0:
            self._control.settimeout(0)
            with contextlib.suppress(OSError, ProtocolError):
                frame = recv_frame(self._control)
                self._dismissed = frame is not None and isinstance(decode(frame), Release)
        return self._dismissed

    def _end_everything(self) -> None:
        for ranks in self._launches:
            ranks.kill()
        for ranks in self._launches:
            ranks.kill_and_reap()  # only now are those that it started orphans, and found
        self._launches.clear()
        self._reaper.sweep(())

    # -- requests

    def _take_request(self) -> None:
        try:
            frame = recv_frame(self._control)
        except (OSError, ProtocolError):
            frame = None
        message = decode(frame) if frame is not None else None
        if not isinstance(message, Launch):
            self._dismissed = isinstance(message, Release)
            self._hang_up()
            return
        self._scratch = message.scratch or self._scratch
        fds = recv_fds(self._control, remote_fd_count(message.world_size))
        ranks = LaunchedRanks(socket.socket(fileno=fds[0]))
        try:
            refusal = self._prepare(message) or self._start_ranks(message, ranks, fds)
        finally:
            for fd in fds[1:]:
                os.close(fd)
        if refusal is None:
            self.watch(ranks)
            ranks.send(Launched(list(ranks.pids.values())))
            return
        ranks.send(refusal)
        ranks.events.close()
        if refusal.dirty:
            self._dismissed = True  # the parent lives, and goes on without this server
            self._hang_up()

    def _hang_up(self) -> None:
        """Takes no more requests, which ends the loop."""
        self._selector.unregister(self._control)
        self._control.close()

    def _prepare(self, request: Launch) -> Refused | None:
        """Takes over the parent's surroundings and imports what ranks need, before any of them exists."""
        try:
            module_import.take_over(request)
            if self._preload and request.preload:
                self._import(request)
        except BaseException as error:
            if self._stopping:
                raise
            return Refused(f"module {request.module.name} does not import:\n{_brief(error)}")
        if self._preload and not misses_no_thread():
            return Refused(f"importing {request.module.name} started threads", dirty=True)
        gc.freeze()  # what ranks share with the server stays shared: no collection writes to it
        return None

    def _import(self, request: Launch) -> None:
        before = posix.children()
        try:
            self._importing = True
            module_import.ensure(request.module)
            preload.import_for_ranks()
        finally:
            self._importing = False
            self._reaper.take_as_helpers(before)

    def _start_ranks(self, request: Launch, ranks: LaunchedRanks, fds: list[int]) -> Refused | None:
        """Starts all ranks of a launch, or none."""
        _, log, per_rank = split_fds(fds)
        mine = self._own_fds()
        try:
            for rank, (channel, output, stack) in enumerate(per_rank):
                others = [fd for trio in per_rank if trio[0] != channel for fd in trio]
                assignment = Assignment(rank, request, channel, output, stack, log, self._pid)
                ranks.add(rank, self._start_rank(assignment, (*mine, *ranks.fds(), *others)))
        except OSError as error:  # no more processes, descriptors or memory for this user
            ranks.kill_and_reap()
            self._reaper.sweep(self._ranks())
            return Refused(f"rank {rank} of {len(per_rank)} could not be started: {error}")
        self._started += len(per_rank)
        return None

    def _own_fds(self) -> list[int]:
        mine = [self._control.fileno(), *(end.fileno() for end in self._wakeup)]
        if isinstance(self._selector, selectors.EpollSelector):
            mine.append(self._selector.fileno())
        for ranks in self._launches:
            mine += ranks.fds()
        return mine

    # -- a launch's life

    def watch(self, ranks: LaunchedRanks) -> None:
        """Sees to what happens to these ranks, and to what their parent says, from now on."""
        self._launches.append(ranks)
        ranks.events.setblocking(False)
        for pidfd in ranks.pidfds:
            self._selector.register(pidfd, selectors.EVENT_READ, partial(self._rank_ended, ranks, pidfd))
        self._selector.register(ranks.events, selectors.EVENT_READ, partial(self._hear, ranks))

    def _hear(self, ranks: LaunchedRanks) -> None:
        if ranks not in self._launches:
            return  # closed by an earlier event of the same batch
        data = read_available(ranks.events.fileno())
        if data is None:
            self._selector.unregister(ranks.events)
            ranks.abandoned = True
            ranks.kill()
            self._close_if_done(ranks)
            return
        for frame in ranks.reader.feed(data):
            message = decode(frame)
            assert isinstance(message, Signal), message
            ranks.signal(message)

    def _rank_ended(self, ranks: LaunchedRanks, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        ranks.send(ranks.reap(pidfd))
        if not ranks.pids:
            ranks.send(Swept(self._reaper.sweep(self._ranks())))
        self._close_if_done(ranks)

    def _ranks(self) -> set[int]:
        return {pid for ranks in self._launches for pid in ranks.pids.values()}

    def _close_if_done(self, ranks: LaunchedRanks) -> None:
        if ranks.pids or ranks not in self._launches:
            return
        self._launches.remove(ranks)
        if (
            self._started >= huge_pages.WORTHWHILE_FORKS
            and self._preload
            and not (self._collapsed or self._launches)
        ):
            self._collapsed = True
            huge_pages.collapse()
        if not ranks.abandoned:
            self._selector.unregister(ranks.events)
        ranks.events.close()

    def end_helpers(self) -> None:
        """The last that a server does: lets go of all that it has open, and ends its helpers."""
        if self._reaper.helpers:
            close_on_to_null(set())
            self._reaper.end_helpers()


def _brief(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()


def main(control: socket.socket, start_rank: StartRank, *, preload: bool, parent: Parent) -> None:
    """Makes this process a server and serves; returns when it is no longer needed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)  # a Ctrl-C at the terminal is the parent's to handle
    posix.adopt_orphans()
    if parent.watch:
        posix.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent.pid:
        return  # it died before we could ask
    atexit._clear()  # what the parent registered is the parent's to run
    gc.disable()
    server = Server(control, start_rank, preload=preload)
    try:
        with contextlib.suppress(SystemExit):
            server.run()
    finally:
        server.end_helpers()


def close_on_to_null(keep: set[int]) -> None:
    """Points every inherited descriptor above 2 at /dev/null.

    Not closed: Python objects of the parent still own these numbers, and would close somebody else's
    descriptor when they are collected.
    """
    null = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for name in os.listdir("/proc/self/fd"):
        fd = int(name)
        if fd > 2 and fd != null and fd not in keep:
            with contextlib.suppress(OSError):  # the listing's own descriptor is closed already
                os.fstat(fd)
                os.dup2(null, fd, inheritable=False)
    os.close(null)


def detach_stdio() -> None:
    """Lets go of the terminal or pipe for input; output stays where the parent's goes, for the server's own
    last words."""
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.stdin = open(os.devnull)  # noqa: SIM115 - held for the life of the process
