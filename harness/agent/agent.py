"""``Agent``: the process of a run on each host; it comes to the controller and serves processes of tests.

    controller (another host)              agent                         process of tests (any host)
      | <- handshake, Arrived ------------- |                               |
      |  Welcome -------------------------> |  <------- handshake --------- |  (ranks.hosts.relay)
      |                                     |  forks a session -----------> |
      |  Goodbye, or the connection's end   |
      |  ---------------------------------> X  all sessions and their ranks end

It has one thread, has imported torch, and runs no operator: sessions are forks of it.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from pathlib import Path

from harness.agent import store
from harness.agent.host_environment import INTERFACES, interface_of
from harness.agent.session import Session
from harness.errors import HarnessError, LaunchError, ProtocolError, UsageError
from harness.hosts.connection import Connection, HostGone, dial, listen
from harness.hosts.handshake import Purpose
from harness.hosts.listener import Listener
from harness.hosts.loop import Loop
from harness.hosts.lost_hosts import LostHosts
from harness.hosts.messages import Arrived, Goodbye, TurnedAway, Welcome
from harness.hosts.versions import versions
from harness.requirements.probes import probe_system
from harness.system import posix, processors
from harness.wire import socket_pair

# Seconds between two attempts to reach a controller that may not be there yet.
_TRY_EVERY_S = 0.2
# Seconds for sessions to end their ranks and themselves; then they are killed. With the next, less than the 2
# s within which nothing of a run is left on a host whose controller has died.
_STOP_S = 1.0
_KILL_S = 0.5
# Sessions at a time, far above the workers of any run: each is a process.
_MOST_SESSIONS = 512


@dataclass(frozen=True, slots=True)
class Options:
    """What an agent is started with. ``address`` "" means the one by which it reaches the controller.

    ``slots`` and ``accelerators`` are as in ``Arrived``. ``own`` are files of the controller that has started
    this agent, which removes them where the controller cannot; empty in an agent of another host.
    """

    controller: str
    port: int
    name: str
    slots: int
    address: str = ""
    wait_s: float = 120.0
    accelerators: int = 0
    own: tuple[str, ...] = ()


class Lost(HarnessError):
    """The controller has ended without a goodbye."""


class Agent:
    """Owns the connection to the controller, the listening socket, the store and the sessions."""

    def __init__(self, options: Options, key: bytes) -> None:
        self._options = options
        self._key = key
        self._loop = Loop()
        self._sessions: set[int] = set()
        self._over = False

    def run(self) -> None:
        """Comes to the controller and serves the run to its end.

        UsageError where the controller turns the agent away, LaunchError where there is none, Lost where it
        ends before its run does.
        """
        posix.adopt_orphans()
        self._controller = self._reach()
        try:
            self._arrive()
            self._serve()
        except Lost:
            self._remove_files()
            raise
        finally:
            self._controller.close()
            self._end_everything()

    def _remove_files(self) -> None:
        """Removes the key's files, each with its directory where that is empty then."""
        for path in self._options.own:
            LostHosts(path).remove()
            with contextlib.suppress(OSError):
                os.remove(path)
                os.rmdir(os.path.dirname(path))

    def _reach(self) -> Connection:
        options, until = self._options, time.monotonic() + self._options.wait_s
        while True:
            try:
                return dial(options.controller, options.port, self._key, Purpose.ARRIVAL)
            except HostGone as error:
                if time.monotonic() > until:
                    raise LaunchError(f"no controller: {error}") from None
                time.sleep(_TRY_EVERY_S)

    def _arrive(self) -> None:
        options = self._options
        address = options.address or self._controller.own_address
        if interface_of(address) is None and not os.environ.get(INTERFACES[0]):
            raise UsageError(f"no network interface of this host has {address}: set {INTERFACES[0]}")
        _, store_port = store.start(address)
        self._address = address
        listener = listen(address)
        self._listener = Listener(listener, self._key, Purpose.SESSION)
        self._controller.send(
            Arrived(
                options.name,
                address,
                listener.getsockname()[1],
                store_port,
                options.slots,
                versions(Path.cwd()),
                processors.available(),
                probe_system().memory_mb,
                options.accelerators,
                bool(options.own),
            )
        )
        try:
            answer = self._controller.receive_one(options.wait_s)
        except HostGone as error:
            raise LaunchError(f"the controller did not let this agent in: {error}") from None
        if isinstance(answer, TurnedAway):
            raise UsageError(answer.reason)
        if not isinstance(answer, Welcome):
            raise ProtocolError(f"expected Welcome, got {answer!r}")

    def _serve(self) -> None:
        wakeup, far = socket_pair()
        for end in (wakeup, far):
            end.setblocking(False)
        signal.set_wakeup_fd(far.fileno(), warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda signum, frame: None)
        signal.signal(signal.SIGTERM, self._stop)
        self._loop.on_read(wakeup.fileno(), lambda: wakeup.recv(4096))
        self._loop.on_read(self._controller.fileno(), self._hear_controller)
        try:
            while not self._over:
                waited = self._listener.descriptors()
                for fd in waited:
                    self._loop.on_read(fd, lambda: None)
                self._loop.step(self._listener.wait_s())
                for fd in waited:
                    self._loop.forget(fd)
                for connection, _ in self._listener.enter():
                    self._begin_session(connection)
                while self._listener.refused:
                    print(f"harness.agent: {self._listener.refused.pop(0)}", file=sys.stderr, flush=True)
                self._reap()
        finally:
            signal.set_wakeup_fd(-1)
            self._listener.close()

    def _stop(self, signum: int, frame: object) -> None:
        self._over = True

    def _hear_controller(self) -> None:
        try:
            messages = self._controller.receive()
        except HostGone as error:
            raise Lost(f"the controller of the run is gone: {error}") from None
        if any(isinstance(message, Goodbye) for message in messages):
            self._over = True

    def _begin_session(self, connection: Connection) -> None:
        if len(self._sessions) >= _MOST_SESSIONS:
            connection.close()
            return
        agent, pid = os.getpid(), os.fork()
        if pid == 0:
            self._be_session(connection, agent)
        self._sessions.add(pid)
        connection.close()

    def _be_session(self, connection: Connection, agent: int) -> None:
        """The life of a session's process; never returns."""
        code = 1
        try:
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(each, signal.SIG_DFL)
            posix.die_with_parent(signal.SIGTERM)
            os.setpgid(0, 0)
            self._controller.close()
            self._listener.close()
            self._loop.close()
            if os.getppid() == agent:
                Session(connection, self._address).run()
            code = 0
        except SystemExit:
            code = 0
        except BaseException:  # noqa: BLE001 - must not reach the agent's frames; its output says what it was
            with contextlib.suppress(OSError, ValueError):
                traceback.print_exc()
        finally:
            os._exit(code)

    def _reap(self) -> None:
        while True:
            try:
                pid, _ = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if not pid:
                return
            self._sessions.discard(pid)

    def _end_everything(self) -> None:
        """Ends sessions and the store, and what else this process has adopted; sessions end their ranks."""
        for pid in posix.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
        self._await_children(_STOP_S)
        for pid in posix.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._await_children(_KILL_S)

    def _await_children(self, seconds: float) -> None:
        """Waits until no process is left; those of a session become this process's when it ends."""
        until = time.monotonic() + seconds
        while (left := posix.children()) and time.monotonic() < until:
            posix.still_running(left[:1], until - time.monotonic())
            self._reap()
