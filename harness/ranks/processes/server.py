"""The server process: starts and reaps the rank processes of each launch, for the parent's socket.

It is the parent of every rank, adopts the orphans that a rank's death leaves, and dies with the process that
started it; when it dies itself, its ranks die with it. It has one thread, one selector and no time-outs: the
supervisor decides when to end ranks.
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
from harness.frames import is_users
from harness.protocol import Assignment, Launch, Launched, Refused, Release, Signal, Swept, decode
from harness.ranks.processes import launch_limits, module_import, preload, process_identity
from harness.ranks.processes.late_imports import late_imports
from harness.ranks.processes.launched_ranks import LaunchedRanks
from harness.ranks.processes.rank_set import remote_fd_count, split_fds
from harness.system import gpu_count, huge_pages, posix, signals, torch_state
from harness.system.fork_safety import fork_keeps_all_threads, fork_keeps_devices
from harness.system.reaper import Reaper
from harness.system.server_process import Parent
from harness.wire import read_available, recv_fds, recv_frame, socket_from, socket_pair

# Starts the process of one rank by fork or exec: (its assignment, descriptors to close) -> process id.
StartRank = Callable[[Assignment, Sequence[int]], int]


class Server:
    """The main loop of a server process; ``run`` returns when the parent has closed its end of the socket."""

    def __init__(self, control: socket.socket, start_rank: StartRank, *, preload: bool) -> None:
        self._control = control
        self._start_rank = start_rank
        self._preload = preload
        self._selector = selectors.DefaultSelector()
        self._launches: list[LaunchedRanks] = []
        self._reaper = Reaper()
        self._pid = os.getpid()
        self._scratch: str | None = None  # the directory of a parent that may be killed before it removes it
        self._dismissed = False
        self._stopping = self._importing = False
        self._wakeup: tuple[socket.socket, ...] = ()
        self._started = 0
        self._collapsed = False

    def run(self) -> None:
        """Serves requests until the parent has ended, then ends every rank."""
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
        """Waits for the next event and handles it."""
        for key, _ in self._selector.select():
            key.data()

    def _listen_for_signals(self) -> None:
        """Makes SIGTERM, which also reports the parent's death, end the loop between two steps.

        No step is interrupted halfway, except an import, which may never end.
        """
        readable, writable = self._wakeup = socket_pair()
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
        """Whether the parent has dismissed this server and removes its scratch directory itself.

        The message may still be unread, behind the request whose import was interrupted.
        """
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
            ranks.kill_and_reap()  # processes that a rank started are adopted only after the rank's end
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
        fds = recv_fds(self._control, remote_fd_count(message))
        ranks = LaunchedRanks(socket_from(fds[0]))
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
            self._dismissed = True  # the parent is alive and replaces this server
            self._hang_up()

    def _hang_up(self) -> None:
        """Accepts no more requests, which ends the loop."""
        self._selector.unregister(self._control)
        self._control.close()

    def _prepare(self, request: Launch) -> Refused | None:
        """Copies the parent's environment and imports what ranks need; returns a refusal on error."""
        try:
            module_import.adopt_parent_environment(request)
            gpu_count.heed_environment(os.environ)
            if self._preload:
                self._import(request)
        except BaseException as error:
            if self._stopping:
                raise
            return Refused(f"module {request.module.name} does not import:\n{_brief(error)}")
        if self._preload and not fork_keeps_all_threads():
            return Refused(f"importing {request.module.name} started threads", dirty=True)
        if self._preload and not fork_keeps_devices():
            return Refused(f"importing {request.module.name} started an accelerator's runtime", dirty=True)
        if torch_state.has_groups():
            return Refused(f"importing {request.module.name} made process groups", dirty=True)
        # A garbage collection in a rank would write to, and so unshare, these objects (python/cpython#75739).
        gc.freeze()
        return None

    def _import(self, request: Launch) -> None:
        before = posix.children()
        try:
            self._importing = True
            if request.preload:
                module = module_import.import_reference(request.module)
                is_users(getattr(module, "__file__", None) or "")  # else each rank would find it out
                late_imports.import_them()
            else:
                process_identity.be_rank(0)  # what asks which process imports it hears what a rank hears
            preload.import_for_ranks(request.imports)
        finally:
            self._importing = False
            posix.flush_streams()  # at its end what modules printed would stand among the parent's output
            process_identity.be_main()
            signals.settle()
            self._reaper.register_helpers(before)

    def _start_ranks(self, request: Launch, ranks: LaunchedRanks, fds: list[int]) -> Refused | None:
        """Starts all ranks of a launch, or returns a refusal and leaves none running."""
        per_rank = split_fds(fds)
        if missing := launch_limits.why_no_processes(len(per_rank)):
            return Refused(missing)
        mine = self._own_fds()
        try:
            for rank, own in zip(request.started_here, per_rank, strict=True):
                channel, output, stack, log = own
                others = [fd for each in per_rank if each is not own for fd in each]
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

    # -- the ranks of a launch

    def watch(self, ranks: LaunchedRanks) -> None:
        """Adds the ranks' ends and the parent's messages about them to the events that the loop handles."""
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
        """Closes the server's descriptors and ends its helper processes; the server's last action."""
        if self._reaper.helpers:
            close_on_to_null(set())
            self._reaper.end_helpers()


def _brief(error: BaseException) -> str:
    return "".join(traceback.format_exception(type(error), error, error.__traceback__)).rstrip()


def main(control: socket.socket, start_rank: StartRank, *, preload: bool, parent: Parent) -> None:
    """Makes this process a server and serves requests; returns when the server is no longer needed."""
    signals.settle()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)  # only the parent gets SIGINT from a Ctrl-C at the terminal
    posix.adopt_orphans()
    if parent.watch:
        posix.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent.pid:
        return  # the parent ended before die_with_parent took effect
    atexit._clear()  # the parent runs the functions that it registered
    gc.disable()
    late_imports.share()
    server = Server(control, start_rank, preload=preload)
    try:
        with contextlib.suppress(SystemExit):
            server.run()
    finally:
        server.end_helpers()


def close_on_to_null(keep: set[int]) -> None:
    """Points every inherited descriptor above 2 that is not in ``keep`` at /dev/null.

    They are not closed, because Python objects of the parent still own these numbers, and would close another
    file that had got the same number when they are collected.
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
    """Replaces standard input by /dev/null; output stays connected, for the server's own error messages."""
    posix.input_from_null()
    sys.stdin = open(os.devnull)  # noqa: SIM115 - held for the life of the process
