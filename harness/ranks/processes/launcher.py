"""``Launcher``: how rank processes are started; starts, replaces and ends the server that does it."""

from __future__ import annotations

import abc
import contextlib
import signal
from collections.abc import Sequence
from typing import Protocol

from harness.errors import LaunchError
from harness.protocol import Launch, Release, encode
from harness.ranks.processes import launch_limits
from harness.ranks.processes.rank_set import RankSet, StartTimeout
from harness.system import posix
from harness.system.server_process import ServerProcess
from harness.wire import send_frame

# Seconds for a dismissed server to end its ranks, the processes that they left, and itself.
CLOSE_WAIT_S = 5.0
# Seconds for the same after SIGTERM: a server that takes longer is in an import that cannot be interrupted,
# and is killed.
STOP_WAIT_S = 2.0


class Launcher(Protocol):
    """The interface of what starts rank processes; a launcher is kept from test to test."""

    name: str

    def ready(self, module: str, sys_path: Sequence[str]) -> None:
        """Prepares for the first launch of a test of that module; LaunchError where that is impossible."""
        ...

    def launch(self, request: Launch) -> RankSet:
        """Starts the ranks of one test; LaunchError where that is impossible."""
        ...

    def how_it_ended(self) -> str:
        """How the server ended, as text, for a test that lost its server."""
        ...

    def close(self) -> None:
        """Ends the launcher's server; a later launch starts a new one."""
        ...


class LaunchServer(ServerProcess):
    """A launcher's server process: ``close`` or ``stop`` ends it, by SIGKILL where it takes too long."""

    def close(self) -> None:
        """Dismisses a server that reads its requests, and waits for its end."""
        self._dismiss()
        self.wait(CLOSE_WAIT_S)

    def stop(self) -> None:
        """Ends a server that does not read its requests, during an import for example, and its ranks."""
        self._dismiss()  # first: a dismissed server does not remove the parent's scratch directory
        self.signal(signal.SIGTERM)
        self.wait(STOP_WAIT_S)

    def _dismiss(self) -> None:
        if self.owned and self.control.fileno() >= 0:
            self.control.settimeout(0)  # the socket is full where the server has not read for a long time
            with contextlib.suppress(OSError):  # the server has ended, or the socket is full
                send_frame(self.control, encode(Release()))
        self.control.close()


class ServerLauncher(abc.ABC):
    """Keeps one server from the first launch until the process ends, and replaces a server that has died."""

    def __init__(self) -> None:
        self._server: LaunchServer | None = None

    @property
    def server(self) -> LaunchServer | None:
        """The server that the launcher keeps; None before the first launch and after ``close``."""
        return self._server

    @abc.abstractmethod
    def _start_server(self, module: str, sys_path: Sequence[str]) -> LaunchServer:
        """Starts a new server; OSError where the system refuses one."""

    def ready(self, module: str, sys_path: Sequence[str]) -> None:
        """Starts the server if there is none, before a test changes what the server would inherit.

        ``module`` is the test's module, ``sys_path`` the path of a new interpreter. LaunchError where no
        process can be started.
        """
        self._ready_server(module, sys_path)

    def _ready_server(self, module: str, sys_path: Sequence[str]) -> LaunchServer:
        if self._server is not None and not self._server.alive():
            self.close()
        if self._server is None:
            posix.open_standard_descriptors()
            try:
                self._server = self._start_server(module, sys_path)
            except OSError as error:
                raise LaunchError(f"the server that starts ranks could not be started: {error}") from error
        return self._server

    def _attempt(self, request: Launch) -> RankSet:
        """Starts the ranks of one test on the server; raises the errors of ``RankSet.start``."""
        server = self._ready_server(request.module.name, request.sys_path)
        try:
            ranks = RankSet(request, server)
        except OSError as error:
            raise LaunchError(launch_limits.why_no_descriptors(request.world_size, error)) from error
        try:
            ranks.start(server.control, request, request.start_timeout_s)
        except BaseException as error:
            if not _answered(error):
                server.stop()
            ranks.close()
            if not server.alive():
                self.close()
            raise
        return ranks

    def how_it_ended(self) -> str:
        """How a server that was lost ended, for the message of the test that was running."""
        return self._server.how_it_ended() if self._server is not None else "not running"

    def close(self) -> None:
        """Ends the server and waits for it."""
        server, self._server = self._server, None
        if server is not None:
            server.close()


def _answered(error: BaseException) -> bool:
    """Whether a failed launch got an answer from the server: not so where it timed out or Ctrl-C ended it."""
    return isinstance(error, LaunchError) and not isinstance(error, StartTimeout)
