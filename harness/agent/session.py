"""``Session``: serves one process of tests: starts its ranks on this host and relays all that they say.

The controller's session has a zygote in place of ranks (``hosted_zygote``). Its process is a fork of the
agent's, and stays such that ranks' server can be forked from it in turn. It ends with its connection, however
that ends, and its ranks end with it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import replace

from harness.agent.host_environment import Scratch, on_this_host, variables
from harness.agent.hosted_launch import HostedLaunch
from harness.agent.hosted_zygote import HostedZygote
from harness.errors import HarnessError, ProtocolError
from harness.hosts.connection import Connection, HostGone
from harness.hosts.loop import Loop
from harness.hosts.messages import (
    Began,
    Begin,
    Claimed,
    Data,
    End,
    ForkWorker,
    Message,
    NotBegun,
    Ping,
    Pong,
    Settled,
    StartZygote,
    Stream,
    ToSignal,
    ZygoteEnded,
)
from harness.protocol import Launch, decode, encode
from harness.ranks.processes.fork_server import ForkServerLauncher
from harness.ranks.processes.launcher import Launcher
from harness.ranks.processes.spawn import SpawnLauncher
from harness.settings import HOST_TIMEOUT_S
from harness.wire import FrameReader, framed

# Seconds between two looks at live ranks: shorter than between two looks for deadlocks.
_LOOK_EVERY_S = 0.2
# Seconds between two looks at a zygote.
_LOOK_AT_ZYGOTE_S = 1.0
# Bytes that wait for the parent, above which nothing more is read of its ranks.
_MOST_WAITING = 8 * 1024 * 1024


class Session:
    """The main loop of a session. ``address`` is the agent's."""

    def __init__(self, connection: Connection, address: str) -> None:
        self._connection = connection
        self._address = address
        self._loop = Loop()
        self._spawn: Launcher | None = None
        self._launcher = ForkServerLauncher(fallback=self._spawning)
        self._launches: dict[int, HostedLaunch] = {}
        # The store, why no file is shared, and this host's own variables, by pooled launch.
        self._adapted: dict[int, tuple[str, str, Mapping[str, str]]] = {}
        self._frames: dict[tuple[int, int], FrameReader] = {}  # of pooled ranks' channels
        self._scratch = Scratch()
        self._zygote: HostedZygote | None = None
        self._shift_s = 0.0
        self._lost_after_s = HOST_TIMEOUT_S
        self._over = False

    def _spawning(self) -> Launcher:
        self._spawn = self._spawn or SpawnLauncher()
        return self._spawn

    def run(self) -> None:
        """Serves until the connection ends."""
        self._loop.on_read(self._connection.fileno(), self._hear)
        look_at_s = 0.0
        try:
            self._hear()  # what came right behind the handshake
            while not self._over:
                self._loop.step(self._wait_s(look_at_s))
                if time.monotonic() >= look_at_s:
                    look_at_s = time.monotonic() + self._look()
                self._tidy()
        except HostGone:
            pass  # the process of tests has ended, or cannot be reached
        finally:
            for launch in self._launches.values():
                launch.close()
            self._launcher.close()
            if self._zygote is not None:
                self._zygote.close()
            if self._spawn is not None:
                self._spawn.close()

    def _look(self) -> float:
        """Looks at what runs here; returns seconds until the next look."""
        for launch in self._launches.values():
            launch.send_logs()
        if self._zygote is None:
            return _LOOK_EVERY_S
        self._zygote.look_for_stop()
        return _LOOK_AT_ZYGOTE_S

    def _wait_s(self, look_at_s: float) -> float:
        silent_s = self._connection.silent_s()
        if silent_s > self._lost_after_s:
            raise HostGone("the parent says nothing any more")
        if self._launches or self._zygote is not None:
            return max(0.0, look_at_s - time.monotonic())
        return max(0.0, self._lost_after_s - silent_s) + 0.01

    def _tidy(self) -> None:
        for number in [number for number, launch in self._launches.items() if launch.done]:
            self._launches.pop(number).close()
            self._adapted.pop(number, None)
            self._frames = {key: value for key, value in self._frames.items() if key[0] != number}

    def _send(self, message: Message) -> None:
        self._connection.send(message)
        if self._connection.waiting > _MOST_WAITING:
            self._connection.flush_below(_MOST_WAITING // 2)
        if self._connection.waiting:
            self._loop.on_write(self._connection.fileno(), self._flush)

    def _flush(self) -> None:
        self._connection.flush()
        if not self._connection.waiting:
            self._loop.no_write(self._connection.fileno())

    def _hear(self) -> None:
        for message in self._connection.receive():
            self._take(message)

    def _take(self, message: Message) -> None:
        if isinstance(message, Ping):
            self._send(Pong(message.sent_s, time.monotonic()))
        elif isinstance(message, Settled):
            self._shift_s, self._lost_after_s = message.shift_s, message.lost_after_s
        elif isinstance(message, Begin):
            self._begin(message)
        elif isinstance(message, StartZygote):
            self._start_zygote(message)
        elif self._zygote is not None:
            self._take_of_workers(self._zygote, message)
        elif isinstance(message, ToSignal | End | Data):
            launch = self._launches.get(message.launch)
            if launch is None:
                return  # it has ended meanwhile
            if isinstance(message, ToSignal):
                launch.signal(message.rank, message.signum, group=message.group)
            elif isinstance(message, End):
                launch.end()
            else:
                self._give(launch, message)
        else:
            raise ProtocolError(f"{type(message).__name__} is no message to an agent")

    def _start_zygote(self, message: StartZygote) -> None:
        environ = variables(message.environ, self._launcher_environ, self._address, "", "")
        try:
            self._zygote = HostedZygote(environ, message.guarded, message.sys_path, self._loop, self._send)
        except HarnessError as error:
            self._send(ZygoteEnded(str(error)))

    def _take_of_workers(self, zygote: HostedZygote, message: Message) -> None:
        if isinstance(message, Data):
            zygote.take(message.payload)
        elif isinstance(message, ForkWorker):
            zygote.fork(message.launch, message.order)
        elif isinstance(message, Claimed):
            zygote.claimed(message.launch, granted=message.granted)
        elif isinstance(message, End):
            zygote.forget(message.launch)
        else:
            raise ProtocolError(f"{type(message).__name__} is no message to a host of workers")

    def _begin(self, message: Begin) -> None:
        try:
            asked = decode(message.request.encode())
            if not isinstance(asked, Launch):
                raise ProtocolError("Begin without a launch")
            request = on_this_host(
                asked, self._scratch, message.token, self._address, message.hosts, message.store
            )
            request = replace(request, environ={**request.environ, **message.environ})
            ranks = self._launcher.launch(request)
        except HarnessError as error:
            self._send(NotBegun(message.launch, str(error)))
            return
        number, here = message.launch, request.started_here
        if request.pooled:
            unshared = self._scratch.why_unshared(asked.scratch, message.token, message.hosts)
            self._adapted[number] = (message.store, unshared, message.environ)
        self._send(Began(number, ranks.pids))
        self._launches[number] = HostedLaunch(number, ranks, here, self._loop, self._send, self._shift_s)

    def _give(self, launch: HostedLaunch, message: Data) -> None:
        """Writes to a rank's channel; the launches of a pooled rank's tests with this host's surroundings."""
        if message.stream is not Stream.CHANNEL:
            raise ProtocolError(f"{message.stream.name} is no stream to a rank")
        known = self._adapted.get(launch.number)
        if known is None:
            launch.give(message.rank, message.payload)
            return
        reader = self._frames.setdefault((launch.number, message.rank), FrameReader())
        for frame in reader.feed(message.payload):
            launch.give(message.rank, framed(self._adapt(frame, *known)))

    def _adapt(self, frame: bytes, store: str, unshared: str, own: Mapping[str, str]) -> bytes:
        request = decode(frame) if frame[:1] == b"{" else None
        if not isinstance(request, Launch) or request.same_surroundings:
            return frame
        environ = variables(request.environ, self._launcher_environ, self._address, store, unshared)
        return encode(replace(request, environ={**environ, **own}))

    @property
    def _launcher_environ(self) -> dict[str, str]:
        """The agent's own variables."""
        return dict(os.environ)
