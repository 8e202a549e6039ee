"""``Workers``: how the controller starts workers through the zygote, watches them, and ends them.

    start -> RUNNING --deadline or end()--> DUMPING --stacks are in--> TERMINATING --grace--> KILLED
                |                                                                      |
                +------------------------------- Gone <-------------------------------+

``wait`` waits for all sockets, pipes and deadlines at once, and returns what happened as events, in order.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import selectors
import signal
import socket
import time
import types
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from harness.errors import ProtocolError
from harness.record import from_json, shifted
from harness.report.base import TestStarted
from harness.runner.events import (
    Cause,
    DebuggerChanged,
    Event,
    HostReady,
    HostUnusable,
    Notice,
    Stage,
    TestEnded,
    Worker,
    WorkerGone,
    ZygoteGone,
)
from harness.runner.interrupts import Interrupts
from harness.runner.messages import (
    Began,
    Debugging,
    Done,
    Ended,
    Fork,
    Forked,
    Gone,
    Item,
    Kill,
    Message,
    Ready,
    Unusable,
    decode,
)
from harness.runner.output_capture import BEFORE_THE_FIRST, OutputSplitter
from harness.runner.zygote_process import LOOK_S, STACKS_S, STOPPED_LOOKS, ZygoteLost, ZygoteProcess
from harness.system import posix
from harness.system.server_process import STOPPED
from harness.system.signals import WORKER_STACKS
from harness.wire import read_available, socket_pair

# Seconds without further bytes after which a dump counts as complete: faulthandler writes no end mark.
STACKS_QUIET_S = 0.2
# Seconds between SIGTERM and SIGKILL: enough to write coverage data, or to run a shell script's trap.
TERMINATE_S = 1.0
# Seconds to wait for a killed process to end. One that takes longer is in an uninterruptible system call, and
# the run goes on without it.
KILLED_S = 10.0
assert STACKS_QUIET_S < TERMINATE_S < STACKS_S < KILLED_S
# Seconds by which this process may come too late on a busy machine. One that comes later was stopped itself.
LATE_S = 5.0
# The most bytes of a worker's stacks that are kept; more have hundreds of threads.
STACK_BYTES = 256 * 1024
# Bytes that a pipe holds unless it is told to hold more (pipe(7)).
PIPE_BYTES = 65536
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
            self._signal(worker, signal.SIGKILL)
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
        order = replace(options, worker=name, items=[item for item, _ in items], marker=_marker())
        near, far = socket_pair()
        output, output_far = os.pipe()
        stacks, stacks_far = os.pipe()
        claims = _claim_pipe(len(items))
        for fd in (output, stacks):
            os.set_blocking(fd, False)
        near.setblocking(False)
        worker = Worker(
            name=name,
            label=label,
            order=order,
            limits={item.seq: limit for item, limit in items},
            channel=near,
            output=output,
            stacks=stacks,
            splitter=OutputSplitter(order.marker),
            waiting=deque(order.items),
            claims=claims,
            host=host,
            shift_s=zygote.shift_s,
        )
        self._workers[name] = worker
        self._register(worker)
        try:
            zygote.send_fork(order, [far.fileno(), output_far, stacks_far, claims])
        except ZygoteLost as lost:
            self._zygote_lost(host, lost)
        finally:
            far.close()
            os.close(output_far)
            os.close(stacks_far)
        return name

    def take_back(self, worker: Worker, number: int) -> list[Item]:
        """Takes at most ``number`` items from the end of a worker's batch that it has not claimed."""
        try:
            taken = len(os.read(worker.claims, min(number, len(worker.waiting))))
        except BlockingIOError:  # a test has opened the pipe for writing, so it has no end
            taken = 0
        return [worker.waiting.pop() for _ in range(taken)][::-1]

    def end(self, worker: Worker, cause: Cause) -> None:
        """Begins to end a worker: a running test's stacks are taken, then SIGTERM and SIGKILL are sent.

        ``wait`` returns an event when the worker has ended.

        A stopped test with ranks gets SIGINT in place of the request for stacks: the ranks' supervisor then
        takes the stacks of the ranks, ends them, and reports what each was doing.
        """
        if worker.stage is not Stage.RUNNING:
            return
        self._read_channel(worker)  # a test that has just begun must be ended with its stack
        if worker.stage is not Stage.RUNNING:
            return
        worker.cause, worker.doomed = cause, worker.current
        if worker.current is None:
            self._terminate(worker)
            return
        worker.stopped = worker.pid is not None and posix.is_stopped(worker.pid)
        if worker.stopped:  # it would not write its stacks, nor take a SIGTERM
            self._kill(worker)
            return
        worker.stage, worker.stage_until_s = Stage.DUMPING, time.monotonic() + STACKS_S
        interrupt = cause is Cause.STOPPED and worker.current.ranks > 1
        self._signal(worker, signal.SIGINT if interrupt else WORKER_STACKS, group=False)

    def _terminate(self, worker: Worker) -> None:
        worker.stage, worker.stage_until_s = Stage.TERMINATING, time.monotonic() + TERMINATE_S
        self._signal(worker, signal.SIGTERM)

    def _kill(self, worker: Worker) -> None:
        worker.stage, worker.stage_until_s = Stage.KILLED, time.monotonic() + KILLED_S
        self._signal(worker, signal.SIGKILL)

    def _signal(self, worker: Worker, signum: int, *, group: bool = True) -> None:
        zygote = self._zygotes.get(worker.host)
        if zygote is None:
            return
        with contextlib.suppress(ZygoteLost):  # then the worker is gone too, and the next wait says so
            zygote.send(Kill(worker.name, int(signum), group))

    # -- waiting

    def wait(self, until_s: float) -> list[Event]:
        """Waits for events, at most until ``until_s`` on the monotonic clock, and returns them."""
        timeout = max(0.0, min(until_s, self._next_deadline(), self._next_look_s) - time.monotonic())
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
            worker.stage_until_s += late_s
            if worker.deadline_s is not None:
                worker.deadline_s += late_s

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

    def _next_deadline(self) -> float:
        times = [w.stage_until_s for w in self._workers.values() if w.stage is not Stage.RUNNING]
        times += [w.deadline_s for w in self._workers.values() if w.deadline_s and w.stage is Stage.RUNNING]
        return min(times, default=float("inf"))

    def _advance(self, now: float) -> None:
        """Moves every worker whose deadline or stage is over to the next stage."""
        for worker in self.all:
            if worker.stage is Stage.RUNNING:
                self._end_if_overdue(worker, now)
            elif now >= worker.stage_until_s:
                _STEPS[worker.stage](self, worker)

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
        if worker.stage is not Stage.RUNNING and not isinstance(message, Debugging):
            self._handle_too_late(worker, message)
        elif isinstance(message, Began):
            self._begin(worker, message)
        elif isinstance(message, Ended):
            self._read_output(worker)
            item, record = worker.current, shifted(from_json(message.record), worker.shift_s)
            if item is None or (item.seq, item.id) != (message.seq, record.id):
                raise ProtocolError(f"the end of another test: {record.id}")
            worker.current, worker.deadline_s, worker.ended_any = None, None, True
            output = worker.splitter.take(item.seq)
            self._events.append(TestEnded(worker, item, record, output))
        elif isinstance(message, Debugging) and worker.order.post_mortem:
            limit = worker.limits.get(worker.current.seq) if worker.current else None
            worker.deadline_s = time.monotonic() + limit if limit is not None and not message.on else None
            self._events.append(DebuggerChanged(message.on))
        elif isinstance(message, Done):
            worker.done = True
        else:
            raise ProtocolError(f"a worker sent {type(message).__name__}")

    def _handle_too_late(self, worker: Worker, message: Message) -> None:
        """Keeps the record of a test whose worker is being ended; nothing else that the worker says counts.

        The signal by which a worker is asked for stacks ends a test's system call, and the test may pass or
        fail for no other reason.
        """
        if isinstance(message, Ended) and worker.doomed is not None and message.seq == worker.doomed.seq:
            worker.too_late = shifted(from_json(message.record), worker.shift_s)
            if worker.stage is Stage.DUMPING:
                self._terminate(worker)

    def _begin(self, worker: Worker, message: Began) -> None:
        item = worker.waiting[0] if worker.waiting else None
        if item is None or item.seq != message.seq or worker.current is not None:
            raise ProtocolError(f"the beginning of another test, number {message.seq}")
        worker.waiting.popleft()
        began_s = message.at_s + worker.shift_s
        worker.current, worker.began_s = item, began_s
        limit = worker.limits[item.seq]
        worker.deadline_s = max(began_s, self._since_s) + limit if limit is not None else None
        attempt, world_size = item.attempt, item.ranks if item.ranks > 1 else None
        self._events.append(
            TestStarted(item.id, worker.label, began_s, world_size, attempt.attempt, attempt.repeat)
        )

    def _read_output(self, worker: Worker) -> None:
        if worker.output >= 0:
            worker.splitter.feed(self._read(worker.output))

    def _read_stacks(self, worker: Worker) -> None:
        data = self._read(worker.stacks)
        worker.dump += data[: max(0, STACK_BYTES - len(worker.dump))]
        if data and worker.stage is Stage.DUMPING:
            worker.stage_until_s = min(worker.stage_until_s, time.monotonic() + STACKS_QUIET_S)

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
                self._events.append(HostReady(host, message.accelerators))
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
        ended_for_it = worker.stage is Stage.RUNNING or worker.doomed is worker.current
        if worker.current is not None and not ended_for_it:
            worker.waiting.appendleft(worker.current)
            worker.current = None
        if worker.done and worker.current is None and worker.stage is Stage.RUNNING:
            worker.cause = Cause.DONE
        running = worker.current
        output = worker.splitter.rest(running.seq if running is not None else BEFORE_THE_FIRST)
        self._forget(worker)
        self._events.append(WorkerGone(worker, running, output))

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
        worker.stage = Stage.GONE
        del self._workers[worker.name]
        for fd in (worker.channel.fileno(), worker.output, worker.stacks):
            with contextlib.suppress(KeyError):
                self._selector.unregister(fd)
        worker.channel.close()
        os.close(worker.output)
        os.close(worker.stacks)
        os.close(worker.claims)
        worker.output = worker.stacks = worker.claims = -1


def _bind(method: Callable[[Worker], None], worker: Worker) -> Callable[[], None]:
    """The method bound to a worker; it does nothing after the worker has ended in the same ``select``."""
    return lambda: None if worker.stage is Stage.GONE else method(worker)


# The step that follows each stage when its time is over.
_STEPS: dict[Stage, Callable[[Workers, Worker], None]] = {
    Stage.DUMPING: Workers._terminate,
    Stage.TERMINATING: Workers._kill,
    Stage.KILLED: Workers._gone,
}


def _claim_pipe(items: int) -> int:
    """The read end of a pipe with a byte for each item, and then its end."""
    claims, far = os.pipe()
    os.set_blocking(claims, False)
    if items > PIPE_BYTES:
        fcntl.fcntl(far, fcntl.F_SETPIPE_SZ, items)
    os.write(far, b"." * items)
    os.close(far)
    return claims


def _marker() -> str:
    """A random marker that separates the output of tests on a pipe, which no test prints by chance."""
    return f"\x1eharness-{secrets.token_hex(8)}-"
