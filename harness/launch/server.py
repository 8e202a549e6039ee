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
import select
import selectors
import shutil
import signal
import socket
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field

from harness.errors import ProtocolError
from harness.launch import imports, pages, posix
from harness.launch.base import remote_fd_count, split_fds
from harness.protocol import Exited, Launch, Refused, Release, Signal, Started, Swept, decode, encode
from harness.wire import FrameReader, read_available, recv_fds, recv_frame, send_frame

# How long an orphan may take to end by itself before it counts as left behind: helper processes of
# multiprocessing notice the end of their rank within milliseconds.
ORPHAN_GRACE_S = 0.25

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


@dataclass(slots=True)
class _Litter:
    """The ranks of one launch that still live, and the socket on which their ends are reported."""

    events: socket.socket
    pids: dict[int, int]  # rank -> pid
    pidfds: dict[int, int] = field(default_factory=dict)  # pidfd -> rank
    reader: FrameReader = field(default_factory=FrameReader)
    abandoned: bool = False


class Server:
    """The loop of a server process; ``run`` returns when the parent has closed its end of ``control``."""

    def __init__(self, control: socket.socket, birth: Birth, *, preload: bool) -> None:
        self._control = control
        self._birth = birth
        self._preload = preload
        self._selector = selectors.DefaultSelector()
        self._litters: list[_Litter] = []
        self._pid = os.getpid()
        self._scratch: str | None = None  # the parent's, which may be killed before it can remove it
        self._dismissed = False
        self._stopping = self._importing = False
        self._born = 0
        self._collapsed = False

    def run(self) -> None:
        """Serves until the parent is gone, then ends every rank."""
        self._selector.register(self._control, selectors.EVENT_READ, self._take_request)
        self._listen_for_signals()
        try:
            while self._control.fileno() >= 0 and not self._stopping:
                for key, _ in self._selector.select():
                    key.data()
        finally:
            self._end_everything()
            if self._scratch is not None and not self._dismissed:
                shutil.rmtree(self._scratch, ignore_errors=True)

    def _listen_for_signals(self) -> None:
        """SIGTERM, which is also how the parent's death is told, ends the loop between two of its steps, so
        that no step is left half done; only an import, which may never end, is broken off."""
        readable, writable = socket.socketpair()
        for end in (readable, writable):
            end.setblocking(False)
        self._selector.register(readable, selectors.EVENT_READ, lambda: readable.recv(64))
        self._wakeup = (readable, writable)
        signal.set_wakeup_fd(writable.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, signum: int, frame: object) -> None:
        self._stopping = True
        if self._importing:
            raise SystemExit(0)

    # -- requests

    def _end_everything(self) -> None:
        for litter in self._litters:
            self._kill_all(litter)
        for litter in self._litters:
            for pid in litter.pids.values():
                _reap(pid)  # only now are those that it started orphans, and found
        self._litters.clear()
        self._sweep()

    def _take_request(self) -> None:
        try:
            frame = recv_frame(self._control)
        except (OSError, ProtocolError):
            frame = None
        message = decode(frame) if frame is not None else None
        if not isinstance(message, Launch):
            self._dismissed = isinstance(message, Release)
            self._selector.unregister(self._control)
            self._control.close()
            return
        request = message
        self._scratch = request.scratch or self._scratch
        fds = recv_fds(self._control, remote_fd_count(request.world_size))
        events = socket.socket(fileno=fds[0])
        refusal = self._prepare(request)
        if refusal is not None:
            for fd in fds[1:]:
                os.close(fd)
            with contextlib.suppress(OSError):  # the parent gave up waiting
                send_frame(events, encode(refusal))
            events.close()
            if refusal.dirty:
                self._selector.unregister(self._control)
                self._control.close()
            return
        self._bear(request, events, fds)

    def _prepare(self, request: Launch) -> Refused | None:
        """Takes over the parent's surroundings and imports what ranks need, before any of them exists."""
        try:
            imports.take_over(request)
            if self._preload and request.preload:
                self._importing = True
                imports.ensure(request.module)
                imports.warm()
        except BaseException as error:
            if self._stopping:
                raise
            return Refused(f"module {request.module.name} does not import:\n{_brief(error)}")
        finally:
            self._importing = False
        if self._preload and posix.os_threads() > 1:
            return Refused(f"importing {request.module.name} started threads", dirty=True)
        gc.freeze()  # what ranks share with the server stays shared: no collection writes to it
        return None

    def _bear(self, request: Launch, events: socket.socket, fds: list[int]) -> None:
        _, ledger, per_rank = split_fds(fds)
        litter = _Litter(events, {})
        mine = self._own_fds()
        for rank, (channel, output, stack) in enumerate(per_rank):
            others = [fd for trio in per_rank if trio[0] != channel for fd in trio]
            close = (*mine, events.fileno(), *litter.pidfds, *others)
            newborn = Newborn(request, rank, channel, output, stack, ledger, close, self._pid)
            pid = self._birth(newborn)
            litter.pids[rank] = pid
            litter.pidfds[os.pidfd_open(pid)] = rank
        self._born += len(per_rank)
        for fd in fds[1:]:
            os.close(fd)
        self._litters.append(litter)
        for pidfd in litter.pidfds:
            self._selector.register(pidfd, selectors.EVENT_READ, _bind(self._rank_ended, litter, pidfd))
        self._selector.register(events, selectors.EVENT_READ, _bind(self._hear, litter))
        with contextlib.suppress(OSError):  # a parent that is gone already is noticed by the selector
            send_frame(events, encode(Started(list(litter.pids.values()))))
        events.setblocking(False)

    def _own_fds(self) -> list[int]:
        mine = [self._control.fileno(), *(end.fileno() for end in self._wakeup)]
        if isinstance(self._selector, selectors.EpollSelector):
            mine.append(self._selector.fileno())
        for litter in self._litters:
            mine += [litter.events.fileno(), *litter.pidfds]
        return mine

    # -- a launch's life

    def _hear(self, litter: _Litter) -> None:
        data = read_available(litter.events.fileno())
        if data is None:
            self._selector.unregister(litter.events)
            litter.abandoned = True
            self._kill_all(litter)
            self._close_if_done(litter)
            return
        for frame in litter.reader.feed(data):
            message = decode(frame)
            assert isinstance(message, Signal), message
            self._signal(litter, message)

    def _signal(self, litter: _Litter, message: Signal) -> None:
        pid = litter.pids.get(message.rank)
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if message.group else os.kill)(pid, message.signum)

    def _kill_all(self, litter: _Litter) -> None:
        for pid in litter.pids.values():
            with contextlib.suppress(ProcessLookupError):  # not yet its own group leader
                os.killpg(pid, signal.SIGKILL)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def _rank_ended(self, litter: _Litter, pidfd: int) -> None:
        rank = litter.pidfds.pop(pidfd)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        pid = litter.pids[rank]
        code, peak = _reap(pid)
        del litter.pids[rank]
        self._tell(litter, Exited(rank, code, peak))
        if not litter.pids:
            leaked = self._sweep()
            self._tell(litter, Swept(leaked))
        self._close_if_done(litter)

    def _tell(self, litter: _Litter, message: Exited | Swept) -> None:
        if litter.abandoned:
            return
        litter.events.setblocking(True)
        with contextlib.suppress(OSError):  # the parent died or lost interest: the selector tells
            send_frame(litter.events, encode(message))
        litter.events.setblocking(False)

    def _close_if_done(self, litter: _Litter) -> None:
        if litter.pids or litter not in self._litters:
            return
        self._litters.remove(litter)
        if self._born >= pages.WORTHWHILE_FORKS and self._preload and not (self._collapsed or self._litters):
            self._collapsed = True
            pages.collapse()
        if not litter.abandoned:
            self._selector.unregister(litter.events)
        litter.events.close()

    # -- what ranks leave behind

    def _sweep(self) -> list[str]:
        """Ends the orphans of ranks that are gone; says which had not ended by themselves."""
        leaked: list[str] = []
        while orphans := self._orphans():
            for pid in orphans:
                if not _ends_soon(pid):
                    leaked.append(f"process {pid}: {posix.command_line(pid)}")
                    os.kill(pid, signal.SIGKILL)
                _reap(pid)
        return leaked

    def _orphans(self) -> list[int]:
        ranks = {pid for litter in self._litters for pid in litter.pids.values()}
        return [pid for pid in posix.children() if pid not in ranks]


def _bind(method: Callable[..., None], *arguments: object) -> Callable[[], None]:
    return lambda: method(*arguments)


def _reap(pid: int) -> tuple[int, int]:
    """Exit code as ``subprocess`` has it, and peak memory in bytes."""
    _, status, usage = os.wait4(pid, 0)
    return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024


def _ends_soon(pid: int) -> bool:
    if posix.is_zombie(pid):
        return True
    pidfd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(pidfd, select.POLLIN)
        return bool(poll.poll(ORPHAN_GRACE_S * 1000))
    finally:
        os.close(pidfd)


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
    with contextlib.suppress(SystemExit):
        Server(control, birth, preload=preload).run()


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
