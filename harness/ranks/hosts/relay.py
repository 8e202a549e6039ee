"""The relay: stands in for a launcher's server in a process of tests, and has ranks started on other hosts.

    parent                     relay                        agent of each host
      |  Launch + descriptors -> |                              |
      |                          |  Begin --------------------> |  its server forks that host's ranks
      | <------ Launched ------- | <-------------------- Began  |
      | <- channels, output, stack dumps, logs <-------- Data   |
      |  Signal, Release ------> |  ToSignal, Data -----------> |
      | <- Exited, Swept ------- | <------- RankEnded, HostSwept|

To the parent it is a server like that of ``ranks.processes.server``: same requests, same descriptors, same
answers. It has one thread, runs no test and imports no torch. When a connection ends, that host's ranks are
lost.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace

from harness.errors import LaunchError, ProtocolError
from harness.hosts import key
from harness.hosts.agent_session import PING_EVERY_S, Link, connect
from harness.hosts.connection import HostGone
from harness.hosts.handshake import HandshakeError
from harness.hosts.hosts import Host, from_text
from harness.hosts.loop import Loop
from harness.hosts.lost_hosts import LostHosts
from harness.hosts.messages import (
    Began,
    Begin,
    Data,
    End,
    HostSwept,
    Message,
    NotBegun,
    RankEnded,
    Stream,
    ToSignal,
)
from harness.protocol import Exited, Launch, Release, Signal, decode, encode
from harness.ranks.hosts.placement import place
from harness.ranks.hosts.relayed_launch import RelayedLaunch
from harness.ranks.processes.rank_set import remote_fd_count, split_fds
from harness.settings import EnvVar
from harness.system import posix
from harness.system.server_process import Parent
from harness.wire import recv_fds, recv_frame

# The file in a parent's scratch directory by which a host knows that it sees the same directory.
TOKEN_FILE = "hosts-token"


class Relay:
    """The main loop; ``run`` returns when the parent has closed its end of ``control``."""

    def __init__(
        self,
        control: socket.socket,
        links: Sequence[Link],
        lost: dict[str, str],
        lost_after_s: float,
        known: LostHosts | None = None,
    ) -> None:
        """``lost`` says of each host that could not be reached why; ``known`` tells other processes of it."""
        self._control = control
        self._links = {link.host.name: link for link in links}
        self._lost = lost
        self._lost_after_s = lost_after_s
        self._known = known
        self._loop = Loop()
        self._launches: dict[int, RelayedLaunch] = {}
        self._count = 0
        self._scratch: str | None = None
        self._dismissed = False
        self._ping_at_s = 0.0

    def run(self) -> None:
        """Relays until the parent has ended; the hosts' ranks end with the connections."""
        self._loop.on_read(self._control.fileno(), self._take_request)
        for link in self._links.values():
            self._attach(link)
        try:
            while self._control.fileno() >= 0:
                self._ping_when_due()
                self._loop.step(max(0.0, self._ping_at_s - time.monotonic()))
        finally:
            for link in self._links.values():
                link.close()
            if self._scratch is not None and not self._dismissed:
                shutil.rmtree(self._scratch, ignore_errors=True)

    # -- requests

    def _take_request(self) -> None:
        try:
            frame = recv_frame(self._control)
        except (OSError, ProtocolError):
            frame = None
        request = decode(frame) if frame is not None else None
        if not isinstance(request, Launch):
            self._dismissed = isinstance(request, Release)
            self._loop.forget(self._control.fileno())
            self._control.close()
            return
        fds = recv_fds(self._control, remote_fd_count(request))
        self._count += 1
        launch = RelayedLaunch(self._count, request, fds, split_fds(fds), self._loop)
        self._launches[launch.number] = launch
        self._scratch = request.scratch or self._scratch
        try:
            self._begin(launch)
        except LaunchError as error:
            launch.refuse(str(error))
            launch.close()
        self._forget_done()

    def _begin(self, launch: RelayedLaunch) -> None:
        """Places the ranks and asks each host for its own; LaunchError where there is no host for them."""
        request = launch.request
        links = list(self._links.values())
        told = "".join(f"; {why}" for _, why in sorted(self._lost.items()))
        if not links:
            raise LaunchError(f"no host is left{told}")
        first = zlib.crc32(f"{request.module.name}.{request.qualname}.{request.method}".encode()) % len(links)
        placement = request.environ.get(EnvVar.PLACEMENT) or "packed"
        slots, least = [link.host.slots for link in links], request.least_hosts
        if least > min(len(links), request.world_size):
            there = ", ".join(link.host.name for link in links)
            raise LaunchError(
                f"{request.world_size} ranks have to be on {least} hosts; what there is: {there}{told}"
            )
        where = place(request.world_size, slots, placement, first, least=least)
        launch.place([links[index].host.name for index in where], self._said)
        chosen = [links[index] for index in dict.fromkeys(where)]
        token = _token(request.scratch)
        store = f"{chosen[0].host.address}:{chosen[0].host.store}" if len(chosen) > 1 else ""
        names = [link.host.name for link in chosen]
        for link in chosen:
            own = replace(request, ranks=launch.ranks_on(link.host.name))
            shown = {link.host.variable: link.host.visible} if link.host.variable else {}
            link.send(Begin(launch.number, encode(own).decode(), token, names, store, shown))

    def _said(self, launch: RelayedLaunch, rank: int | None, what: bytes | Signal | None) -> None:
        """Passes on what the parent says to a rank or of one; its end of the launch to all hosts."""
        if rank is None:
            for name in dict.fromkeys(launch.hosts):
                self._send_to(name, End(launch.number))
            self._forget_done()
        elif isinstance(what, Signal):
            self._send_to(launch.hosts[rank], ToSignal(launch.number, rank, what.signum, what.group))
        elif what is not None:
            self._send_to(launch.hosts[rank], Data(launch.number, rank, Stream.CHANNEL, what))

    # -- hosts

    def _send_to(self, name: str, message: Message) -> None:
        if name in self._links:
            self._links[name].send(message)

    def _attach(self, link: Link) -> None:
        link.attach(
            self._loop,
            lambda message: self._take(link, message),
            lambda why: self._lose(link, why),
            lambda: self._taken(link),
        )

    def _taken(self, link: Link) -> None:
        self._pause_if_full(link)
        self._forget_done()

    def _pause_if_full(self, link: Link) -> None:
        link.pause_above(sum(launch.waiting_from(link.host.name) for launch in self._launches.values()))

    def _take(self, link: Link, message: Message) -> None:
        launch = self._launches.get(message.launch) if hasattr(message, "launch") else None
        name = link.host.name
        if launch is None:
            raise ProtocolError(f"{type(message).__name__} of no launch")
        if isinstance(message, Data | RankEnded) and launch.hosts[message.rank] != name:
            raise ProtocolError(f"{type(message).__name__} of another host's rank")
        if isinstance(message, Data):
            launch.take(message)
        elif isinstance(message, Began):
            launch.began(name, message.pids, {n: each.shift_s for n, each in self._links.items()})
        elif isinstance(message, NotBegun):
            launch.refuse(f"on host {name}: {message.reason}", name)
            for other in dict.fromkeys(launch.hosts):
                if other != name:
                    self._send_to(other, End(launch.number))
        elif isinstance(message, RankEnded):
            launch.rank_ended(Exited(message.rank, message.code, message.peak_memory))
        elif isinstance(message, HostSwept):
            launch.swept(name, [f"{line} (host {name})" for line in message.leaked])

    def _lose(self, link: Link, reason: str) -> None:
        name = link.host.name
        why = f"host {name} was lost: {reason}"
        self._lost[name] = why
        if link.stalled and self._known is not None:
            self._known.note(name, why)
        del self._links[name]
        for launch in list(self._launches.values()):
            launch.lose(name, why)
        self._forget_done()

    def _forget_done(self) -> None:
        for number in [number for number, launch in self._launches.items() if launch.done]:
            del self._launches[number]
        for link in list(self._links.values()):
            self._pause_if_full(link)

    def _ping_when_due(self) -> None:
        now = time.monotonic()
        if now < self._ping_at_s:
            return
        self._ping_at_s = now + PING_EVERY_S
        self._forget_done()
        for link in list(self._links.values()):
            # While its server imports a module, a host does not answer.
            busy = any(link.host.name in each.starting for each in self._launches.values())
            link.ping(self._lost_after_s, busy=busy)


def _token(scratch: str | None) -> str:
    """What the token file in the scratch directory holds; it is made at the first launch."""
    if scratch is None:
        return ""
    path = os.path.join(scratch, TOKEN_FILE)
    with contextlib.suppress(FileExistsError), open(path, "x", encoding="utf-8") as file:
        file.write(secrets.token_hex(16))
    with open(path, encoding="utf-8") as file:
        return file.read()


def _leave(signum: int, frame: object) -> None:
    """Ends the relay, which removes what its parent can remove no more."""
    raise SystemExit


def serve(control: socket.socket, parent: Parent, hosts: str, key_file: str, lost_after_s: float) -> None:
    """The entry point of the relay's process: begins a session with each host, then relays."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.setpgid(0, 0)  # only the parent gets SIGINT from a Ctrl-C at the terminal
    signal.signal(signal.SIGTERM, _leave)
    if parent.watch:
        posix.die_with_parent(signal.SIGTERM)
    if os.getppid() != parent.pid:
        return
    secret = key.from_file(key_file)
    known = LostHosts(key_file)
    links, lost = reach(from_text(hosts), secret, lost_after_s, known)
    Relay(control, links, lost, lost_after_s, known).run()


def reach(
    hosts: Sequence[Host], secret: bytes, lost_after_s: float, known: LostHosts
) -> tuple[list[Link], dict[str, str]]:
    """A session with each host, and of each host without one why; those ``known`` as lost are not asked."""
    links: list[Link] = []
    lost = {host.name: why for host in hosts if (why := known.why(host.name))}
    for host in (each for each in hosts if each.name not in lost):
        try:
            links.append(connect(host, secret, lost_after_s))
            known.answers(host.name)
        except (HostGone, HandshakeError, ProtocolError) as error:
            lost[host.name] = f"host {host.name} was lost: {error}"
            if isinstance(error, HostGone):
                known.note(host.name, lost[host.name])
    return links, lost
