"""The server process: gives birth to ranks, reports their ends, and leaves nothing of them behind.

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
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from harness.errors import ProtocolError
from harness.protocol import Launch, Launched, Refused, Release, Signal, Swept, decode
from harness.ranks.processes import module_import
from harness.ranks.processes.launched_ranks import LaunchedRanks
from harness.ranks.processes.rank_set import remote_fd_count, split_fds
from harness.system import huge_pages, posix
from harness.system.reaper import Reaper
from harness.wire import read_available, recv_fds, recv_frame

# Turns a fork or an exec into a rank: (request, rank, its descriptors, what to close) -> process id.
Birth = Callable[["Newborn"], int]


@dataclass(frozen=True, slots=True)
class Newborn:
    """Everything that a birth needs to know about one rank."""

    request: Launch
    rank: int
    channel: int
    output: int
    stack: int
    ledger: int
    close: tuple[int, ...]
    server_pid: int


class Server:
    """The loop of a server process; ``run`` returns when the parent has closed its end of ``control``."""

    def __init__(self, control: socket.socket, birth: Birth, *, preload: bool) -> None:
        self._control = control
        self._birth = birth
        self._preload = preload
        self._selector = selectors.DefaultSelector()
        self._litters: list[LaunchedRanks] = []
        self._reaper = Reaper()
        self._pid = os.getpid()
        self._scratch: str | None = None  # the parent's, which may be killed before it can remove it
        self._dismissed = False
        self._stopping = self._importing = False
        self._wakeup: tuple[socket.socket, ...] = ()
        self._born = 0
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
        for litter in self._litters:
            litter.kill()
        for litter in self._litters:
            litter.kill_and_bury()  # only now are those that it started orphans, and found
        self._litters.clear()
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
        litter = LaunchedRanks(socket.socket(fileno=fds[0]))
        try:
            refusal = self._prepare(message) or self._bear(message, litter, fds)
        finally:
            for fd in fds[1:]:
                os.close(fd)
        if refusal is None:
            self.watch(litter)
            litter.tell(Launched(list(litter.pids.values())))
            return
        litter.tell(refusal)
        litter.events.close()
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
        if self._preload and not posix.forkable():
            return Refused(f"importing {request.module.name} started threads", dirty=True)
        gc.freeze()  # what ranks share with the server stays shared: no collection writes to it
        return None

    def _import(self, request: Launch) -> None:
        before = posix.children()
        try:
            self._importing = True
            module_import.ensure(request.module)
            module_import.warm()
        finally:
            self._importing = False
            self._reaper.take_as_helpers(before)

    def _bear(self, request: Launch, litter: LaunchedRanks, fds: list[int]) -> Refused | None:
        """Gives birth to all ranks, or to none."""
        _, ledger, per_rank = split_fds(fds)
        mine = self._own_fds()
        try:
            for rank, (channel, output, stack) in enumerate(per_rank):
                others = [fd for trio in per_rank if trio[0] != channel for fd in trio]
                close = (*mine, *litter.fds(), *others)
                newborn = Newborn(request, rank, channel, output, stack, ledger, close, self._pid)
                litter.add(rank, self._birth(newborn))
        except OSError as error:  # no more processes, descriptors or memory for this user
            litter.kill_and_bury()
            self._reaper.sweep(self._ranks())
            return Refused(f"rank {rank} of {len(per_rank)} could not be started: {error}")
        self._born += len(per_rank)
        return None

    def _own_fds(self) -> list[int]:
        mine = [self._control.fileno(), *(end.fileno() for end in self._wakeup)]
        if isinstance(self._selector, selectors.EpollSelector):
            mine.append(self._selector.fileno())
        for litter in self._litters:
            mine += litter.fds()
        return mine

    # -- a launch's life

    def watch(self, litter: LaunchedRanks) -> None:
        """Sees to what happens to these ranks, and to what their parent says, from now on."""
        self._litters.append(litter)
        litter.events.setblocking(False)
        for pidfd in litter.pidfds:
            self._selector.register(pidfd, selectors.EVENT_READ, partial(self._rank_ended, litter, pidfd))
        self._selector.register(litter.events, selectors.EVENT_READ, partial(self._hear, litter))

    def _hear(self, litter: LaunchedRanks) -> None:
        if litter not in self._litters:
            return  # closed by an earlier event of the same batch
        data = read_available(litter.events.fileno())
        if data is None:
            self._selector.unregister(litter.events)
            litter.abandoned = True
            litter.kill()
            self._close_if_done(litter)
            return
        for frame in litter.reader.feed(data):
            message = decode(frame)
            assert isinstance(message, Signal), message
            litter.signal(message)

    def _rank_ended(self, litter: LaunchedRanks, pidfd: int) -> None:
        self._selector.unregister(pidfd)
        litter.tell(litter.bury(pidfd))
        if not litter.pids:
            litter.tell(Swept(self._reaper.sweep(self._ranks())))
        self._close_if_done(litter)

    def _ranks(self) -> set[int]:
        return {pid for litter in self._litters for pid in litter.pids.values()}

    def _close_if_done(self, litter: LaunchedRanks) -> None:
        if litter.pids or litter not in self._litters:
            return
        self._litters.remove(litter)
        if (
            self._born >= huge_pages.WORTHWHILE_FORKS
            and self._preload
            and not (self._collapsed or self._litters)
        ):
            self._collapsed = True
            huge_pages.collapse()
        if not litter.abandoned:
            self._selector.unregister(litter.events)
        litter.events.close()

    def end_helpers(self) -> None:
        """The last that a server does: lets go of all that it has open, and ends its helpers."""
        if self._reaper.helpers:
            close_on_to_null(set())
            self._reaper.end_helpers()


def _brief(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()


@dataclass(frozen=True, slots=True)
class Parent:
    """Who started this server. ``watch`` False where the thread that did so may end before the process."""

    pid: int
    watch: bool


def main(control: socket.socket, birth: Birth, *, preload: bool, parent: Parent) -> None:
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
    server = Server(control, birth, preload=preload)
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
