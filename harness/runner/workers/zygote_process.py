"""``ZygoteProcess``: how the controller starts a zygote, exchanges messages with it, and ends it."""

from __future__ import annotations

import contextlib
import dataclasses
import select
import signal
import socket
import time
from collections.abc import Iterator, Mapping, Sequence

from harness.errors import HarnessError, ProtocolError, UsageError
from harness.hosts.hosts import Host
from harness.runner.messages import (
    Fork,
    HostLost,
    Kill,
    Load,
    Loaded,
    Loading,
    Message,
    Ready,
    Unusable,
    decode,
    encode,
)
from harness.runner.workers.zygote_interpreter import EarlyInterpreter, start
from harness.system.logged_server import LoggedServer
from harness.system.signals import WORKER_STACKS
from harness.wire import FrameReader, read_available, send_fds, send_frame

# Seconds until the import of one module counts as hanging. Torch and transformers together take ten on a cold
# disk.
IMPORT_TIMEOUT_S = 300.0
# Seconds to wait for the stacks of a worker, or of a zygote whose import hangs. Writing them takes
# milliseconds; a process that is stopped or swapped out writes none.
STACKS_S = 2.0
# Seconds to wait until a zygote has ended its workers and itself, which takes only calls of kill and wait.
CLOSE_S = 10.0
assert STACKS_S < CLOSE_S < IMPORT_TIMEOUT_S
# Seconds between two looks at whether a process for which others wait is stopped.
LOOK_S = 1.0


class ZygoteLost(Exception):
    """Raised when the zygote has died; the message tells how it ended and the end of its log."""


class ZygoteProcess(LoggedServer):
    """Owns a zygote. Leaving the context ends it, its workers, and the processes that these left behind."""

    def __init__(
        self,
        environ: Mapping[str, str],
        sys_path: Sequence[str],
        *,
        inherit_streams: bool = False,
        host: Host | None = None,
        early: EarlyInterpreter | None = None,
    ) -> None:
        """Starts the zygote's interpreter; HarnessError where that is impossible.

        With ``host`` that is a relay (``zygote_relay``), which has the zygote started on that host.
        With ``inherit_streams`` it and its workers have this process's standard streams, session and process
        group; otherwise its output goes to a log, and an ``early`` interpreter is taken where it is like one
        that would be started now.
        """
        self._reader = FrameReader()
        self.ready: Ready | None = None  # the last one, with what the zygote has found out about the target
        self.host_lost = ""  # how the host was lost
        self._fault = ""  # what else was written to its socket
        started = early.take(environ, sys_path) if early and not (host or inherit_streams) else None
        if started is None:
            relay_to = dataclasses.asdict(host) if host is not None else None
            try:
                started = start(environ, sys_path, inherit_streams=inherit_streams, relay_to=relay_to)
            except OSError as error:
                raise HarnessError(f"the process that forks workers could not be started: {error}") from error
        self._changes = dict(started.changes)
        super().__init__(started.pid, started.control, started.log)

    @property
    def shift_s(self) -> float:
        """What to add to the monotonic clock of the zygote's host, once it has loaded."""
        return self.ready.shift_s if self.ready is not None else 0.0

    def close(self) -> None:
        """Closes the socket, which ends zygote and workers, and waits; kills a zygote that does not end."""
        if self.control.fileno() < 0:
            return
        self.end_if_stopped()
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)
            self.control.settimeout(CLOSE_S)
            while self.control.recv(65536):
                continue
        self.control.close()
        self.wait(CLOSE_S)
        self.close_log()

    def lost(self) -> ZygoteLost:
        """The exception about a zygote whose socket has closed: how it ended, and the end of its log."""
        self.wait(CLOSE_S)
        return ZygoteLost(self.host_lost or self.end_text())

    def send(self, message: Load | Kill) -> None:
        """Sends a message; ZygoteLost where the zygote has died."""
        try:
            send_frame(self.control, encode(message))
        except OSError:
            raise self.lost() from None

    def send_fork(self, order: Fork, fds: Sequence[int]) -> None:
        """Sends a ``Fork`` with the worker's descriptors; ZygoteLost where the zygote has died."""
        try:
            send_frame(self.control, encode(order))
            send_fds(self.control, fds)
        except OSError:
            raise self.lost() from None

    def receive(self) -> list[Message]:
        """Returns the zygote's messages once the control socket is readable.

        ZygoteLost where it has died, or where something else wrote to its socket; it is killed then. What it
        sent before is returned first, since it tells in which module that was: the exception comes next time.
        """
        if self._fault:
            raise ZygoteLost(self._fault)
        data = read_available(self.control.fileno())
        if data is None:
            raise self.lost()
        messages = []
        try:
            for frame in self._reader.feed(data):
                messages.append(decode(frame))
        except ProtocolError as error:
            self.signal(signal.SIGKILL)
            self.wait(CLOSE_S)
            self._fault = f"a module that it imported wrote to its socket: {error}"
            if not messages:
                raise ZygoteLost(self._fault) from None
        for message in messages:
            if isinstance(message, Ready):
                self.ready = message
            elif isinstance(message, HostLost):
                self.host_lost = message.reason
        return messages

    def load(
        self, modules: Sequence[str], path: Sequence[str], wake: int, first: Sequence[str] = ()
    ) -> Iterator[Loaded]:
        """Has the zygote import modules, and yields the result of each. No worker may run.

        ``first`` are modules of torch to import before.
        A module whose import takes too long, or ends the zygote, is yielded with its error, and then
        ZygoteLost is raised. UsageError where the target of the run cannot be tested. Where ``wake`` becomes
        readable, because the user wants to stop, the zygote is killed, which would import the other modules
        first, and KeyboardInterrupt is raised.
        """
        self.send(Load(list(modules), list(path), self._changes, list(first)))
        self._changes = {}
        current = ""
        deadline = time.monotonic() + IMPORT_TIMEOUT_S
        while True:
            left = max(0.0, deadline - time.monotonic())
            readable, _, _ = select.select([self.control.fileno(), wake], [], [], min(LOOK_S, left))
            if not readable and left > LOOK_S:
                self.look_for_stop()
                continue
            if wake in readable:
                self.signal(signal.SIGKILL)
                raise KeyboardInterrupt
            try:
                messages = self.receive() if readable else self._give_up_import()
            except ZygoteLost as lost:
                if current:
                    yield Loaded(current, [], error=f"importing {current} ended the process: {lost}")
                raise
            for message in messages:
                if isinstance(message, Ready):
                    return
                if isinstance(message, Unusable):
                    raise UsageError(message.reason)
                if isinstance(message, Loading):
                    current, deadline = message.module, time.monotonic() + IMPORT_TIMEOUT_S
                elif isinstance(message, Loaded):
                    current = ""
                    yield message

    def _give_up_import(self) -> list[Message]:
        """Takes the stacks of a zygote whose import hangs, kills it, and raises ZygoteLost with them."""
        self.signal(WORKER_STACKS)
        select.select([self.control], [], [], STACKS_S)
        self.signal(signal.SIGKILL)
        self.wait(CLOSE_S)
        raise ZygoteLost(f"no end after {IMPORT_TIMEOUT_S:.0f} s{self.log_tail()}")
