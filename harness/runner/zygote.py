"""The zygote: a warm process with the test modules loaded, from which workers are forked in milliseconds.

It imports and lists test modules, forks workers, reaps them, and ends what they leave behind. It never runs
a test or an operator, and stays at one thread, or its forks would not be safe. When the controller's end of
its socket closes, however the controller dies, it ends every worker and itself.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import fcntl
import gc
import os
import selectors
import signal
import socket
import sys
import time
import unittest
from collections.abc import Callable
from io import TextIOWrapper
from typing import NoReturn

from harness import coverage_hook
from harness.errors import ProtocolError
from harness.runner import worker
from harness.runner.listing import list_module
from harness.runner.messages import (
    FORK_FDS,
    Fork,
    Forked,
    Gone,
    Kill,
    Load,
    Loaded,
    Loading,
    Message,
    Ready,
    decode,
    encode,
)
from harness.runner.unit import to_json
from harness.system import huge_pages, posix
from harness.system.fork_safety import is_clean
from harness.system.server_process import Parent
from harness.system.signals import WORKER_STACKS
from harness.wire import recv_fds, recv_frame, send_frame

# Seconds that processes which outlive their worker get: fork servers and resource trackers notice the end
# of their parent within milliseconds.
ORPHAN_GRACE_S = 1.0
# Descriptor numbers from here on hold a worker's pipes, out of the way of tests that close "all" small ones.
HIGH_FD = 200


class Zygote:
    """The zygote's loop; ``run`` returns when the controller is gone."""

    def __init__(self, control: socket.socket, guarded: dict[str, str | None], controller: int) -> None:
        """``guarded`` are the variables that keep libraries at one thread here, with the values that workers
        get back; ``controller`` is the process that started this one."""
        self._control = control
        self._controller = controller
        self._clean = True
        self._restore = guarded
        self._selector = selectors.DefaultSelector()
        self._tests: dict[str, unittest.TestCase] = {}
        self._workers: dict[int, tuple[str, int, bool]] = {}  # pid -> name, pidfd, own process group
        self._orphans: dict[int, float] = {}  # pid -> when its grace is over

    def run(self) -> None:
        """Serves until the controller is gone, then ends every worker."""
        self._selector.register(self._control, selectors.EVENT_READ, self._take_order)
        try:
            while self._control.fileno() >= 0:
                for key, _ in self._selector.select(self._patience()):
                    key.data()
                self._end_orphans()
        finally:
            for pid in list(self._workers):
                self._reap(pid)
            while self._orphans:  # servers of ranks remove what a worker that was killed could not
                self._selector.select(self._patience())
                self._end_orphans()

    def _tell(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # a controller that is gone is noticed by the selector
            send_frame(self._control, encode(message))

    def _take_order(self) -> None:
        try:
            frame = recv_frame(self._control)
        except (OSError, ProtocolError):
            frame = None
        if frame is None:
            self._selector.unregister(self._control)
            self._control.close()
            return
        order = decode(frame)
        if isinstance(order, Load):
            self._load(order)
        elif isinstance(order, Kill):
            self._kill(order)
        else:
            assert isinstance(order, Fork), order
            self._fork(order, recv_fds(self._control, FORK_FDS))

    # -- modules

    def _load(self, order: Load) -> None:
        """Imports and lists. A module that hangs must not keep this process alive without its controller."""
        posix.die_with_parent(signal.SIGKILL)
        if os.getppid() != self._controller:
            os._exit(1)
        sys.path[:] = [*order.path, *(entry for entry in sys.path if entry not in order.path)]
        for name in order.modules:
            self._tell(Loading(name))
            self._tell(self._load_one(name))
        posix.die_with_parent(0)
        gc.collect()
        # A garbage collection in a worker would write to these objects, and so unshare their memory
        # (python/cpython#75739).
        gc.freeze()
        if "torch" in sys.modules and len(self._tests) >= huge_pages.WORTHWHILE_FORKS:
            huge_pages.collapse()  # for the forks of workers, and of all that these fork
        self._tell(Ready())

    def _load_one(self, name: str) -> Loaded:
        had_torch = "torch" in sys.modules
        was_clean, began = self._clean, time.monotonic()
        listing = list_module(name)
        import_s = time.monotonic() - began
        if was_clean and posix.os_threads() > 1:
            self._clean = is_clean()
        self._tests.update(listing.tests)
        return Loaded(
            name,
            [to_json(unit) for unit in listing.units],
            listing.error,
            listing.skipped,
            dirty=was_clean and not self._clean,
            import_s=import_s if had_torch == ("torch" in sys.modules) else None,
            files=listing.files,
            duplicates=listing.duplicates,
        )

    # -- workers

    def _fork(self, order: Fork, fds: list[int]) -> None:
        parent = os.getpid()
        posix.flush_streams()
        pid = os.fork()
        if pid == 0:
            self._become_worker(order, fds, parent)
        for fd in fds:
            os.close(fd)
        pidfd = os.pidfd_open(pid)
        self._workers[pid] = (order.worker, pidfd, not order.terminal)
        self._selector.register(pidfd, selectors.EVENT_READ, _bind(self._reap, pid))
        self._tell(Forked(order.worker, pid))

    def _become_worker(self, order: Fork, fds: list[int], parent: int) -> NoReturn:
        """In the child: a process of its own, with nothing of the zygote's but its modules."""

        def body() -> None:
            if not order.terminal:
                os.setsid()
            posix.die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            posix.adopt_orphans()
            self._let_go()
            channel_fd, output, stacks = (_raised(fd) for fd in fds)
            for name, value in {**self._restore, **order.environ}.items():
                os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)
            _connect_streams(order, output)
            _default_signals()
            faulthandler.enable(stacks, all_threads=True)
            faulthandler.register(WORKER_STACKS, stacks, all_threads=True, chain=False)
            coverage_hook.start_in_child()
            gc.enable()
            with socket.socket(fileno=channel_fd) as channel:
                worker.run_batch(order, self._tests, channel, output)

        os._exit(worker.guarded(body))

    def _kill(self, order: Kill) -> None:
        for pid, (name, _, own_group) in self._workers.items():
            if name == order.worker:
                try:
                    (os.killpg if order.group and own_group else os.kill)(pid, order.signum)
                except ProcessLookupError:  # it has not come to lead its group yet
                    os.kill(pid, order.signum)

    def _let_go(self) -> None:
        self._control.close()
        for _, pidfd, _ in self._workers.values():
            os.close(pidfd)
        self._selector.close()

    def _reap(self, pid: int) -> None:
        """Ends what is left of a worker, and the worker itself where it still runs; tells how it ended.

        Its process group is signalled before it is reaped: until then nobody else can have its number.
        """
        name, pidfd, own_group = self._workers.pop(pid)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if own_group else os.kill)(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        self._tell(Gone(name, os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024))
        self._note_orphans()

    # -- what workers leave behind: they adopt their descendants' orphans, and on their death we do

    def _note_orphans(self) -> None:
        deadline = time.monotonic() + ORPHAN_GRACE_S
        for pid in posix.children():
            if pid not in self._workers:
                self._orphans.setdefault(pid, deadline)

    def _patience(self) -> float | None:
        if not self._orphans:
            return None
        return max(0.0, min(ORPHAN_GRACE_S / 10, min(self._orphans.values()) - time.monotonic()))

    def _end_orphans(self) -> None:
        """Reaps orphans that have ended and ends those whose grace is over; what these leave behind too."""
        while self._orphans:
            now = time.monotonic()
            ended = [pid for pid, deadline in self._orphans.items() if self._ended(pid, now > deadline)]
            for pid in ended:
                del self._orphans[pid]
            if not ended:
                return
            self._note_orphans()

    def _ended(self, pid: int, overdue: bool) -> bool:
        """Reaps an orphan if it has ended, or ends it first where it is overdue; True if it is gone."""
        try:
            if overdue:
                os.kill(pid, signal.SIGKILL)
            return os.waitpid(pid, 0 if overdue else os.WNOHANG)[0] == pid
        except (ChildProcessError, ProcessLookupError):
            return True


def _bind(method: Callable[[int], None], pid: int) -> Callable[[], None]:
    return lambda: method(pid)


def _raised(fd: int) -> int:
    high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
    os.close(fd)
    return high


def _connect_streams(order: Fork, output: int) -> None:
    if not order.terminal:
        null = os.open(os.devnull, os.O_RDONLY)
        os.dup2(null, 0)
        os.close(null)
    if not (order.terminal or order.stream):
        os.dup2(output, 1)
        os.dup2(output, 2)
    # New objects: the zygote's remember what kind of file they were opened on.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115 - for life
    sys.stdout = sys.__stdout__ = _text_stream(1)  # type: ignore[misc]  # final for users, not for us
    sys.stderr = sys.__stderr__ = _text_stream(2)  # type: ignore[misc]  # as above


def _text_stream(fd: int) -> TextIOWrapper:
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _default_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main(control: socket.socket, parent: Parent, guarded: dict[str, str | None]) -> NoReturn:
    """Entry of the zygote's interpreter: becomes a zygote and serves; never returns."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a Ctrl-C at the terminal is the controller's to handle
    faulthandler.register(WORKER_STACKS, sys.__stderr__ or 2, all_threads=True, chain=False)
    posix.adopt_orphans()
    coverage_hook.start_in_child()
    gc.disable()
    code = worker.guarded(Zygote(control, guarded, parent.pid).run)
    atexit._run_exitfuncs()  # what test modules registered on import; a worker's fork does not run these
    os._exit(code)
