"""``Workers``: how the controller starts workers through the zygote, hears them, and ends them.

``wait`` waits for all sockets, pipes and deadlines at once, and returns what happened as events, in order.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import socket
import time
import types
from collections.abc import Callable, Iterable, Sequence

from harness.errors import ProtocolError
from harness.runner.interrupts import Interrupts
from harness.runner.messages import Ended, Fork, Forked, Gone, Item, Kill, Message, Ready, Unusable, decode
from harness.runner.workers import worker_ending, worker_messages
from harness.runner.workers.events import Event, HostReady, HostUnusable, Notice, ZygoteGone
from harness.runner.workers.worker_state import Cause, Stage, Worker, opened
from harness.runner.workers.zygote_process import LOOK_S, ZygoteLost, ZygoteProcess
from harness.system import posix
from harness.system.logged_server import STOPPED_LOOKS
from harness.system.server_process import STOPPED
from harness.wire import read_available

# Seconds by which this process may come too late on a busy machine. One that comes later was stopped itself.
LATE_S = 5.0
# This many reads empty a socket of any size that the system gives. What comes after that is not the worker's,
# but that of a process which it left, and which still writes.
LAST_READS = 64


class Workers:
    """Owns the workers of one run, and the selector that waits for all their descriptors.

    Leaving the context kills the workers that still run. ``use`` sets the zygote, whose owner closes it.
    """

    def __init__(self, interrupts: Interrupts) -> None:
        """``wait`` returns early at each of the ``interrupts``."""
        self._selector = selectors.DefaultSelector()
        self._selector.register(interrupts, selectors.EVENT_READ, interrupts.drain)
        self._zygotes: dict[str, ZygoteProcess] = {}  # by host, "" is this one
        self._workers: dict[str, Worker] = {}
        self._events: list[Event] = []
        self._count = 0
        self._next_look_s = 0.0
        self._awake_s = time.monotonic()  # when it last began to wait, or to do other things
        self._since_s = 0.0  # no test is overdue for what it did before

    def watch(self, source: int, ready: Callable[[], object]) -> None:
        """Makes ``wait`` return early and call ``ready`` when a descriptor of somebody else's is readable."""
        self._selector.register(source, selectors.EVENT_READ, ready)

    def unwatch(self, source: int) -> None:
        """Takes back ``watch``; nothing happens for what is not watched."""
        with contextlib.suppress(KeyError):
            self._selector.unregister(source)

    def __enter__(self) -> Workers:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        for worker in list(self._workers.values()):
            self._kill(worker)
            self._forget(worker)
        for host in list(self._zygotes):
            self._drop_zygote(host)
        self._selector.close()

    def __len__(self) -> int:
        return len(self._workers)

    @property
    def all(self) -> tuple[Worker, ...]:
        """Every worker that is not gone."""
        return tuple(self._workers.values())

    @property
    def pids(self) -> tuple[int, ...]:
        """The process ids of all workers, which lead process groups of the same numbers."""
        return tuple(w.pid for w in self._workers.values() if w.pid is not None)

    def has_zygote(self, host: str = "") -> bool:
        """True while there is a zygote of that host, "" for this one, that can fork workers."""
        return host in self._zygotes

    def use(self, zygote: ZygoteProcess, host: str = "") -> None:
        """Sets the zygote that forks the workers of a host from now on."""
        assert host not in self._zygotes
        self._zygotes[host] = zygote
        self._selector.register(zygote.control, selectors.EVENT_READ, lambda: self._read_zygote(host))

    def _drop_zygote(self, host: str) -> None:
        zygote = self._zygotes.pop(host, None)
        if zygote is not None:
            with contextlib.suppress(KeyError, ValueError):  # its socket may be closed already
                self._selector.unregister(zygote.control)

    # -- starting and ending

    def start(
        self, label: str, items: Sequence[tuple[Item, float | None]], options: Fork, host: str = ""
    ) -> str:
        """Starts a worker for items with their time limits in seconds, and returns the worker's name.

        ``options`` are those of every worker; ``host`` is where it runs. Where the zygote turns out to be
        dead, the next ``wait`` reports it and this worker as gone.
        """
        zygote = self._zygotes[host]
        self._count += 1
        name = f"{label}#{self._count}"
        with opened(name, label, items, options, host, zygote.shift_s) as (worker, far_ends):
            self._workers[name] = worker
            self._register(worker)
            try:
                zygote.send_fork(worker.order, far_ends)
            except ZygoteLost as lost:
                self._zygote_lost(host, lost)
        return name

    def end(self, worker: Worker, cause: Cause) -> None:
        """Begins to end a worker: a running test's stacks are taken, then SIGTERM and SIGKILL are sent.

        ``wait`` returns an event when the worker has ended.
        """
        if worker.stage is not Stage.RUNNING:
            return
        self._read_channel(worker)  # a test that has just begun must be ended with its stack
        if worker.stage is not Stage.RUNNING:
            return
        self._send(worker, worker_ending.begin(worker, cause, time.monotonic()))

    def _kill(self, worker: Worker) -> None:
        self._send(worker, worker_ending.kill(worker, time.monotonic()))

    def _send(self, worker: Worker, order: Kill) -> None:
        zygote = self._zygotes.get(worker.host)
        if zygote is None:
            return
        with contextlib.suppress(ZygoteLost):  # then the worker is gone too, and the next wait says so
            zygote.send(order)

    # -- waiting

    def wait(self, until_s: float) -> list[Event]:
        """Waits for events, at most until ``until_s`` on the monotonic clock, and returns them."""
        due_s = min((worker.due_s for worker in self._workers.values()), default=float("inf"))
        timeout = max(0.0, min(until_s, due_s, self._next_look_s) - time.monotonic())
        if self._events:
            timeout = 0.0
        ready = self._selector.select(timeout)
        self._make_up_for(time.monotonic() - self._awake_s - timeout)
        for key, _ in ready:
            key.data()
        self._advance(time.monotonic())
        self._end_stopped(time.monotonic())
        self._awake_s = time.monotonic()
        events, self._events = self._events, []
        return events

    def _make_up_for(self, late_s: float) -> None:
        """Gives all workers more time where this process comes much later than it meant to, as after Ctrl-Z.

        Their tests went on meanwhile, but could not say so once a socket or pipe was full.
        """
        if late_s < LATE_S:
            return
        self._since_s = time.monotonic()
        for worker in self._workers.values():
            worker.postpone(late_s)

    def _end_stopped(self, now: float) -> None:
        """Kills the zygote, or a worker between tests, that was found stopped at ``STOPPED_LOOKS`` looks.

        A test's limit ends a worker that is stopped while it runs one.
        """
        if now < self._next_look_s:
            return
        self._next_look_s = now + LOOK_S
        for zygote in self._zygotes.values():
            zygote.look_for_stop()  # the end of its socket tells of its end
        for worker in self.all:
            idle = worker.current is None and worker.stage is Stage.RUNNING and worker.pid is not None
            stopped = idle and posix.is_stopped(worker.pid or 0)
            worker.stopped_looks = worker.stopped_looks + 1 if stopped else 0
            if worker.stopped_looks >= STOPPED_LOOKS:
                worker.stopped = True
                self._events.append(
                    Notice(f"worker {worker.label} (process {worker.pid}) was {STOPPED} and is killed")
                )
                self._kill(worker)

    def _advance(self, now: float) -> None:
        """Moves every worker whose deadline or stage is over to the next stage."""
        for worker in self.all:
            if worker.stage is Stage.RUNNING:
                self._end_if_overdue(worker, now)
            elif now >= worker.stage_until_s:
                order = worker_ending.next_step(worker, now)
                if order is not None:
                    self._send(worker, order)
                else:
                    self._gone(worker)

    def _end_if_overdue(self, worker: Worker, now: float) -> None:
        if worker.deadline_s is None or now < worker.deadline_s:
            return
        self._read_channel(worker)  # the test's end may not have been read yet
        if worker.deadline_s is not None and now >= worker.deadline_s:
            self.end(worker, Cause.TIMEOUT)

    # -- reading

    def _register(self, worker: Worker) -> None:
        for source, read in (
            (worker.channel.fileno(), self._read_channel),
            (worker.output, self._read_output),
            (worker.stacks, self._read_stacks),
        ):
            self._selector.register(source, selectors.EVENT_READ, _bind(read, worker))

    def _read_channel(self, worker: Worker) -> None:
        if worker.garbled:
            return
        try:
            for frame in worker.frames.feed(self._read(worker.channel.fileno())):
                self._handle(worker, decode(frame))
        except ProtocolError as error:  # a test wrote to a descriptor that it does not own
            with contextlib.suppress(KeyError):
                self._selector.unregister(worker.channel.fileno())
            worker.garbled = str(error)
            if worker.stage is Stage.RUNNING:
                worker.cause, worker.doomed = Cause.GARBLED, worker.current
            self._kill(worker)

    def _handle(self, worker: Worker, message: Message) -> None:
        """Handles a worker's message; ProtocolError for one that no worker sends now."""
        if isinstance(message, Ended) and worker.stage is Stage.RUNNING:
            self._read_output(worker)
        event = worker_messages.heed(worker, message, self._since_s)
        if event is not None:
            self._events.append(event)
        if worker.stage is Stage.DUMPING and worker.too_late is not None:
            self._send(worker, worker_ending.terminate(worker, time.monotonic()))

    def _read_output(self, worker: Worker) -> None:
        if worker.output >= 0:
            worker.splitter.feed(self._read(worker.output))

    def _read_stacks(self, worker: Worker) -> None:
        worker_ending.add_stacks(worker, self._read(worker.stacks), time.monotonic())

    def _read(self, fd: int) -> bytes:
        """Reads the available bytes. A descriptor at its end is removed from the selector."""
        data = read_available(fd)
        if data is None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
        return data or b""

    # -- ends

    def _read_zygote(self, host: str) -> None:
        try:
            messages = self._zygotes[host].receive()
        except ZygoteLost as lost:
            self._zygote_lost(host, lost)
            return
        self._handle_zygote(host, messages)

    def _handle_zygote(self, host: str, messages: Iterable[Message]) -> None:
        """Handles a zygote's messages about workers, and those of a zygote on another host about itself."""
        for message in messages:
            worker = self._workers.get(getattr(message, "worker", ""))
            if isinstance(message, Ready):
                self._events.append(HostReady(host, message.device_set))
            elif isinstance(message, Unusable):
                self._events.append(HostUnusable(host, message.reason))
            elif worker is None:
                continue
            elif isinstance(message, Forked):
                worker.pid = message.pid
            elif isinstance(message, Gone):
                worker.code, worker.peak_memory = message.code, message.peak_memory
                if not host:
                    worker.killed = worker.memory_kills.explain(worker.code)
                self._gone(worker)

    def _gone(self, worker: Worker) -> None:
        """Reads the worker's last messages and output, and adds the event of its end."""
        for _ in range(LAST_READS):
            if worker.garbled or not self._is_readable(worker.channel):
                break
            self._read_channel(worker)
        self._read_output(worker)
        self._read_stacks(worker)
        event = worker_ending.gone(worker)
        self._forget(worker)
        self._events.append(event)

    @staticmethod
    def _is_readable(channel: socket.socket) -> bool:
        try:
            return bool(channel.recv(1, socket.MSG_PEEK))
        except OSError:
            return False

    def _zygote_lost(self, host: str, lost: ZygoteLost) -> None:
        """Adds the events of a dead zygote and of its workers.

        Workers die with their zygote (PR_SET_PDEATHSIG), but their children may not: their process groups are
        killed.
        """
        zygote = self._zygotes.get(host)
        if zygote is None:
            return
        self._drop_zygote(host)
        host_lost = bool(zygote.host_lost)
        self._events.append(ZygoteGone(str(lost), host, host_lost))
        for worker in [each for each in self._workers.values() if each.host == host]:
            if worker.pid is not None and not worker.order.terminal:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(worker.pid, signal.SIGKILL)
            if worker.cause is Cause.CRASH or host_lost:
                worker.cause = Cause.HOST if host_lost else Cause.ZYGOTE
                worker.host_lost = zygote.host_lost
            self._gone(worker)

    def _forget(self, worker: Worker) -> None:
        del self._workers[worker.name]
        for fd in (worker.channel.fileno(), worker.output, worker.stacks):
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
        worker.close()


def _bind(method: Callable[[Worker], None], worker: Worker) -> Callable[[], None]:
    """The method bound to a worker; it does nothing after the worker has ended in the same ``select``."""
    return lambda: None if worker.stage is Stage.GONE else method(worker)
