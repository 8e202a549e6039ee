"""The relay of a zygote: stands in for it on the controller's host, and has another host start it.

    controller                      relay                       agent of the host
      |  Load, Kill (frames) -------> |  Data(ZYGOTE) -----------> |  its zygote
      |  Fork(asks) + descriptors --> |  ForkWorker -------------> |  forks a worker
      | <- messages, output, stacks - | <------------------ Data   |
      |    claim pipe <-------------- | <------------------ Claim  |  the worker asks for its next test
      | <- Gone --------------------- | <---------- Data(ZYGOTE)   |  behind all that the worker has said

To the controller it is a zygote like any other (``zygote_process``). It has one thread and imports no torch.
Process ids of the other host mean nothing here, so ``Forked`` is kept back.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness import environment
from harness.errors import ProtocolError
from harness.hosts import key
from harness.hosts.agent_session import PING_EVERY_S, Link, connect
from harness.hosts.connection import HostGone
from harness.hosts.handshake import HandshakeError
from harness.hosts.hosts import Host
from harness.hosts.loop import BufferedWriter, Loop
from harness.hosts.lost_hosts import LostHosts
from harness.hosts.messages import (
    ZYGOTE,
    Claim,
    Claimed,
    Data,
    End,
    ForkWorker,
    StartZygote,
    Stream,
    ZygoteEnded,
)
from harness.hosts.messages import Message as HostMessage
from harness.runner.messages import FORK_FDS, Fork, Forked, Gone, HostLost, Message, Ready, decode, encode
from harness.settings import EnvVar
from harness.system import posix
from harness.system.server_process import Parent
from harness.wire import FrameReader, framed, recv_fds, recv_frame, send_frame


@dataclass(slots=True)
class _Worker:
    """The far ends of a worker's descriptors, and its end once the zygote has told of it."""

    name: str
    writers: dict[Stream, BufferedWriter]
    claims: int
    fds: tuple[int, ...]
    gone: Gone | None = None

    @property
    def waiting(self) -> int:
        return sum(writer.waiting for writer in self.writers.values())


class ZygoteRelay:
    """The main loop; ``run`` returns when the controller has closed its end of ``control``, or at a loss."""

    def __init__(self, control: socket.socket, link: Link, lost_after_s: float, known: LostHosts) -> None:
        """``known`` tells the processes of tests of a loss."""
        self._control = control
        self._known = known
        self._link = link
        self._lost_after_s = lost_after_s
        self._loop = Loop()
        self._frames = FrameReader()
        self._workers: dict[int, _Worker] = {}
        self._count = ZYGOTE
        self._over = False

    def run(self, start: StartZygote) -> None:
        """Has the host ``start`` its zygote, and relays."""
        self._loop.on_read(self._control.fileno(), self._take_order)
        self._link.attach(self._loop, self._take, self._lose, self._taken)
        self._link.send(start)
        ping_at_s = 0.0
        try:
            while not self._over:
                if time.monotonic() >= ping_at_s:
                    ping_at_s = time.monotonic() + PING_EVERY_S
                    self._link.ping(self._lost_after_s)
                self._loop.step(max(0.0, ping_at_s - time.monotonic()))
        finally:
            self._link.close()
            self._control.close()

    # -- from the controller

    def _take_order(self) -> None:
        try:
            frame = recv_frame(self._control)
        except (OSError, ProtocolError):
            frame = None
        if frame is None:
            self._over = True
            return
        order = decode(frame)
        if isinstance(order, Fork):
            self._fork(order, recv_fds(self._control, FORK_FDS))
        else:
            self._link.send(Data(ZYGOTE, 0, Stream.CHANNEL, framed(frame)))

    def _fork(self, order: Fork, fds: list[int]) -> None:
        channel, output, stacks, claims = fds
        self._count += 1
        streams = {Stream.CHANNEL: channel, Stream.OUTPUT: output, Stream.STACK: stacks}
        writers = {stream: BufferedWriter(self._loop, fd, lambda: None) for stream, fd in streams.items()}
        self._workers[self._count] = _Worker(order.worker, writers, claims, tuple(fds))
        for writer in writers.values():
            writer.on_flush = self._taken
        self._link.send(ForkWorker(self._count, encode(replace(order, asks=True)).decode()))

    # -- from the host

    def _take(self, message: HostMessage) -> None:
        if isinstance(message, ZygoteEnded):
            print(message.reason, flush=True)  # in the log that the controller shows
            self._over = True
        elif isinstance(message, Data) and message.launch == ZYGOTE:
            for frame in self._frames.feed(message.payload):
                self._pass_on(decode(frame))
        elif isinstance(message, Data):
            worker = self._workers.get(message.launch)
            if worker is not None and worker.gone is None:
                worker.writers[message.stream].write(message.payload)
        elif isinstance(message, Claim):
            self._claim(message.launch)
        else:
            raise ProtocolError(f"{type(message).__name__} is no message of a host of workers")

    def _pass_on(self, message: Message) -> None:
        """Passes a message of the zygote on; a worker's end waits until the controller has its bytes."""
        if isinstance(message, Gone):
            for worker in self._workers.values():
                if worker.name == message.worker:
                    worker.gone = message
        elif isinstance(message, Ready):
            self._say(replace(message, shift_s=self._link.shift_s))
        elif not isinstance(message, Forked):
            self._say(message)

    def _claim(self, number: int) -> None:
        worker = self._workers.get(number)
        try:
            granted = worker is not None and bool(os.read(worker.claims, 1))
        except BlockingIOError:  # a test of another worker has opened the pipe, so it has no end
            granted = False
        self._link.send(Claimed(number, granted))

    def _taken(self) -> None:
        """Tells of the workers that have ended and of which nothing waits; reads no more where much does."""
        for number, worker in list(self._workers.items()):
            if worker.gone is not None and not worker.waiting:
                self._say(worker.gone)
                self._forget(number)
        self._link.pause_above(sum(worker.waiting for worker in self._workers.values()))

    def _forget(self, number: int) -> None:
        worker = self._workers.pop(number)
        for writer in worker.writers.values():
            writer.drop()
        for fd in worker.fds:
            self._loop.forget(fd)
            os.close(fd)
        self._link.send(End(number))

    def _lose(self, why: str) -> None:
        name = self._link.host.name
        if self._link.stalled:
            self._known.note(name, f"host {name} was lost: {why}")
        self._say(HostLost(f"host {name} was lost: {why}"))
        self._over = True

    def _say(self, message: Message) -> None:
        with contextlib.suppress(OSError):  # the controller is gone: the loop says so
            send_frame(self._control, encode(message))


def serve(
    control: socket.socket,
    parent: Parent,
    guarded: Mapping[str, str | None],
    host: dict[str, Any],
    sys_path: list[str],
) -> None:
    """The entry point of the relay's process. Its environment is that of the tests, but for ``guarded``."""
    settings = environment.settings()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the controller handles a Ctrl-C at the terminal
    posix.die_with_parent(signal.SIGKILL)
    if os.getppid() != parent.pid:
        return
    where, key_file = Host(**host), os.environ[EnvVar.KEY_FILE]
    known = LostHosts(key_file)
    try:
        link = connect(where, key.from_file(key_file), settings.host_timeout_s)
    except (HostGone, HandshakeError, ProtocolError) as error:
        why = f"host {where.name} was lost: {error}"
        if isinstance(error, HostGone):
            known.note(where.name, why)
        with contextlib.suppress(OSError):
            send_frame(control, encode(HostLost(why)))
        return
    known.answers(where.name)
    environ = {name: value for name, value in os.environ.items() if name not in guarded}
    relay = ZygoteRelay(control, link, settings.host_timeout_s, known)
    relay.run(StartZygote(environ, dict(guarded), sys_path))
