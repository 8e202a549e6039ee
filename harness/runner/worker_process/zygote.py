"""The code of the zygote: a process that imports the test modules and forks workers in milliseconds.

The zygote imports and lists test modules, forks workers, reaps them, and ends the processes that they leave
behind. It never runs a test or an operator and has a single thread, because forks would be unsafe otherwise.
When the controller's end of its socket closes, however the controller ends, it ends all workers and itself.
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
from collections.abc import Callable, Mapping
from io import TextIOWrapper
from typing import NoReturn

from harness import coverage_hook
from harness.communication.taps.warm_up import prepare_forks
from harness.errors import ProtocolError
from harness.impact import recorder
from harness.outcomes import EXIT_ERROR
from harness.ranks.processes.late_imports import import_at_once, imported_of_torch, late_imports
from harness.requirements import probes
from harness.runner import target_check
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
    Unusable,
    decode,
    encode,
)
from harness.runner.scheduling.unit import to_json
from harness.runner.worker_process import forked_listing, worker
from harness.runner.worker_process.forked_listing import ForkedListing
from harness.runner.worker_process.listing import list_module
from harness.runner.worker_process.orphans import Orphans
from harness.system import gpu_count, huge_pages, posix, signals, torch_state
from harness.system.fork_safety import fork_keeps_devices, is_clean
from harness.system.reaper import reap
from harness.system.server_process import Parent
from harness.system.signals import WORKER_STACKS
from harness.wire import recv_fds, recv_frame, send_frame, socket_from

# A worker's pipes get descriptor numbers from here on, because some tests close all low numbers.
HIGH_FD = 200


class Zygote:
    """The zygote's loop; ``run`` returns when the controller is gone."""

    def __init__(self, control: socket.socket, guarded: dict[str, str | None], controller: int) -> None:
        """``guarded`` maps the variables that limit libraries to one thread here to the values that workers
        get; ``controller`` is the process id of this process's parent."""
        self._control = control
        self._controller = controller
        self._clean = True
        self._restore = guarded
        self._selector = selectors.DefaultSelector()
        self._tests: dict[str, unittest.TestCase] = {}
        self._left: set[str] = set()  # modules that a fork has listed
        self._workers: dict[int, tuple[str, int, bool]] = {}  # pid -> name, pidfd, own process group
        self._orphans = Orphans(self._workers)

    def run(self) -> None:
        """Handles the controller's messages until the controller is gone, then ends every worker."""
        self._selector.register(self._control, selectors.EVENT_READ, self._read_order)
        try:
            while self._control.fileno() >= 0:
                for key, _ in self._selector.select(self._orphans.timeout_s()):
                    key.data()
                self._orphans.end()
        finally:
            for pid in list(self._workers):
                self._reap(pid)
            while self._orphans:  # servers of ranks remove the files of a killed worker
                self._selector.select(self._orphans.timeout_s())
                self._orphans.end()

    def _send(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # a controller that is gone is noticed by the selector
            send_frame(self._control, encode(message))

    def _read_order(self) -> None:
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
        """Imports the modules and lists their tests.

        Meanwhile this process dies with the controller, because an import that hangs would keep it alive.
        """
        posix.die_with_parent(signal.SIGKILL)
        if os.getppid() != self._controller:
            os._exit(1)
        _set_variables(order.environ)
        sys.path[:] = [*order.path, *(entry for entry in sys.path if entry not in order.path)]
        probes.count_before_forks()
        unusable = target_check.problem(os.environ)
        if unusable:
            self._send(Unusable(unusable))
            return
        import_at_once(order.first)
        for name in order.modules:
            self._send(Loading(name))
            # Beside another module's effects no server of ranks begins as a new process would.
            alone = len(order.modules) == 1 and not (self._tests or self._left)
            self._send(self._load_one(name, ForkedListing(name) if alone else None))
        posix.die_with_parent(0)
        prepare_forks()  # once, as all workers and their servers of ranks inherit it
        late_imports.share()
        # A garbage collection in a worker would write to these objects, and so unshare their memory
        # (python/cpython#75739). One before would take a tenth of the time of an import of torch.
        gc.freeze()
        if "torch" in sys.modules and len(self._tests) >= huge_pages.WORTHWHILE_FORKS:
            huge_pages.collapse()  # for the forks of workers and of their ranks
        self._send(target_check.ready(os.environ))

    def _load_one(self, name: str, forked: ForkedListing | None) -> Loaded:
        had_torch = "torch" in sys.modules
        was_clean, began = self._clean, time.monotonic()
        listing = forked.list() if forked is not None else list_module(name)
        signals.settle()
        import_s = time.monotonic() - began
        if was_clean and (posix.os_threads() > 1 or torch_state.made_here() or not fork_keeps_devices()):
            self._clean = is_clean()
        self._tests.update(listing.tests)
        dirty = was_clean and not self._clean
        loaded = Loaded(
            name,
            [to_json(unit) for unit in listing.units],
            listing.error,
            listing.skipped,
            listing.refusal,
            dirty=dirty,
            import_s=import_s if had_torch == ("torch" in sys.modules) else None,
            files=listing.files,
            duplicates=listing.duplicates,
            of_torch=imported_of_torch() if dirty else [],
        )
        told = forked.result(loaded) if forked is not None else loaded
        if told is None:
            return self._load_one(name, None)
        if forked is not None and forked.elsewhere:
            self._left.add(name)
        return told

    # -- workers

    def _fork(self, order: Fork, fds: list[int]) -> None:
        parent = os.getpid()
        if late_imports.import_them():
            gc.freeze()
        posix.flush_streams()
        try:
            pid = os.fork()
        except OSError as error:  # no process or memory is left for this user
            self._refuse(order, fds, f"no worker could be forked: {error}\n")
            return
        if pid == 0:
            self._become_worker(order, fds, parent)
        for fd in fds:
            os.close(fd)
        pidfd = os.pidfd_open(pid)
        self._workers[pid] = (order.worker, pidfd, not order.terminal)
        self._selector.register(pidfd, selectors.EVENT_READ, _bind(self._reap, pid))
        self._send(Forked(order.worker, pid))

    def _refuse(self, order: Fork, fds: list[int], reason: str) -> None:
        """Tells the controller that a worker has ended, with the reason as the worker's output."""
        output = fds[1]
        os.write(output, reason.encode())
        for fd in fds:
            os.close(fd)
        self._send(Gone(order.worker, EXIT_ERROR, 0))

    def _become_worker(self, order: Fork, fds: list[int], parent: int) -> NoReturn:
        """Turns the forked child into a worker, which keeps only the imported modules, and runs its batch."""

        def body() -> None:
            if not order.terminal:
                os.setsid()
            posix.die_with_parent(signal.SIGKILL)
            if os.getppid() != parent:
                os._exit(1)
            posix.adopt_orphans()
            self._close_inherited()
            channel_fd, output, stacks, claims = (_moved_up(fd) for fd in fds)
            _set_variables({**self._restore, **order.environ})
            gpu_count.heed_environment(os.environ)
            _connect_streams(order, output)
            _default_signals()
            faulthandler.enable(stacks, all_threads=True)
            faulthandler.register(WORKER_STACKS, stacks, all_threads=True, chain=False)
            coverage_hook.start_in_child()
            recorder.start()
            gc.enable()
            missing = late_imports.missing()
            if order.items[0].module in self._left:
                forked_listing.start_server(order.items[0].module)
            with socket_from(channel_fd) as channel:
                worker.run_batch(order, self._tests, channel, output, claims)
            late_imports.note(missing)

        os._exit(worker.guarded(body))

    def _kill(self, order: Kill) -> None:
        for pid, (name, _, own_group) in self._workers.items():
            if name == order.worker:
                try:
                    (os.killpg if order.group and own_group else os.kill)(pid, order.signum)
                except ProcessLookupError:  # the worker has not called setsid yet
                    os.kill(pid, order.signum)

    def _close_inherited(self) -> None:
        self._control.close()
        for _, pidfd, _ in self._workers.values():
            os.close(pidfd)
        self._selector.close()

    def _reap(self, pid: int) -> None:
        """Kills a worker and its process group, reaps it, and tells the controller how it ended.

        The group is killed before the worker is reaped: until then the system cannot reuse its process id.
        """
        name, pidfd, own_group = self._workers.pop(pid)
        self._selector.unregister(pidfd)
        os.close(pidfd)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            (os.killpg if own_group else os.kill)(pid, signal.SIGKILL)
        self._send(Gone(name, *reap(pid)))
        self._orphans.note()


def _bind(method: Callable[[int], None], pid: int) -> Callable[[], None]:
    return lambda: method(pid)


def _set_variables(values: Mapping[str, str | None]) -> None:
    for name, value in values.items():
        os.environ.pop(name, None) if value is None else os.environ.__setitem__(name, value)


def _moved_up(fd: int) -> int:
    try:
        high = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, HIGH_FD)
    except OSError:  # the user's limit of descriptors (``ulimit -n``) is lower
        return fd
    os.close(fd)
    return high


def _connect_streams(order: Fork, output: int) -> None:
    if not order.terminal:
        posix.input_from_null()
    if not (order.terminal or order.stream):
        os.dup2(output, 1)
        os.dup2(output, 2)
    # New objects are needed: the zygote's have cached properties of the files that they were opened on.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc]  # noqa: SIM115 - stays open
    sys.stdout = sys.__stdout__ = _text_stream(1)  # type: ignore[misc]  # typeshed declares it Final
    sys.stderr = sys.__stderr__ = _text_stream(2)  # type: ignore[misc]  # declared Final too


def _text_stream(fd: int) -> TextIOWrapper:
    return open(fd, "w", buffering=1, encoding="utf-8", errors="backslashreplace", closefd=False)


def _default_signals() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def main(control: socket.socket, parent: Parent, guarded: dict[str, str | None]) -> NoReturn:
    """The entry point of the zygote's interpreter: runs a ``Zygote`` and exits."""
    signals.settle()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller handles a Ctrl-C at the terminal
    faulthandler.register(WORKER_STACKS, sys.__stderr__ or 2, all_threads=True, chain=False)
    posix.adopt_orphans()
    coverage_hook.start_in_child()
    gc.disable()
    code = worker.guarded(Zygote(control, guarded, parent.pid).run)
    atexit._run_exitfuncs()  # runs what test modules registered; workers end by _exit and run none of it
    os._exit(code)
