"""``Launcher``: how ranks that are processes are started, and what the launchers that keep a server share."""

from __future__ import annotations

import abc
import contextlib
import signal
from collections.abc import Sequence
from typing import Protocol

from harness.errors import LaunchError
from harness.protocol import Launch, Release, encode
from harness.ranks.processes.rank_set import RankSet, StartTimeout
from harness.system.server_process import ServerProcess
from harness.wire import send_frame

# Seconds for a dismissed server to end its ranks, what they leave behind, and itself.
CLOSE_WAIT_S = 5.0
# Seconds for the same where the server was told by a signal, too: one whose import cannot be broken off, and
# only such a one, is worth no longer a wait.
STOP_WAIT_S = 2.0


class Launcher(Protocol):
    """A strategy that starts ranks; it is kept from test to test."""

    name: str

    def ready(self, module: str, sys_path: Sequence[str]) -> None:
        """Prepares for the first launch of a test of that module; LaunchError where that is impossible."""
        ...

    def launch(self, request: Launch) -> RankSet:
        """Starts the ranks of one test; LaunchError where that is impossible."""
        ...

    def how_it_ended(self) -> str:
        """What became of the server, in words, where a test has lost it."""
        ...

    def close(self) -> None:
        """Ends the server that the launcher keeps; a later launch starts a new one."""
        ...


class LaunchServer(ServerProcess):
    """The server of a launcher: ``close`` or ``stop`` ends it, and kills it where it takes too long."""

    def close(self) -> None:
        """Dismisses a server that listens, and waits for its end."""
        self._dismiss()
        self.wait(CLOSE_WAIT_S)

    def stop(self) -> None:
        """Ends a server that does not listen, because it imports a module, say; and with it its ranks."""
        self._dismiss()  # first, so that it knows the scratch directory to be in use still
        self.signal(signal.SIGTERM)
        self.wait(STOP_WAIT_S)

    def _dismiss(self) -> None:
        if self.owned and self.control.fileno() >= 0:
            self.control.settimeout(0)  # no room for a message: it has not listened for a long time
            with contextlib.suppress(OSError):  # it is gone already
                send_frame(self.control, encode(Release()))
        self.control.close()


class ServerLauncher(abc.ABC):
    """Keeps one server from the first launch to the end of the process; a dead one is replaced."""

    def __init__(self) -> None:
        self._server: LaunchServer | None = None

    @property
    def server(self) -> LaunchServer | None:
        """The server that the launcher keeps; None before the first launch and after ``close``."""
        return self._server

    @abc.abstractmethod
    def _start_server(self, module: str, sys_path: Sequence[str]) -> LaunchServer:
        """Starts a new server; OSError where there cannot be one."""

    def ready(self, module: str, sys_path: Sequence[str]) -> None:
        """Starts the server if there is none, before a test changes what the server would inherit.

        ``module`` is the test's, ``sys_path`` what a new interpreter starts with. LaunchError where no
        process can be made.
        """
        self._ready_server(module, sys_path)

    def _ready_server(self, module: str, sys_path: Sequence[str]) -> LaunchServer:
        if self._server is not None and not self._server.alive():
            self.close()
        if self._server is None:
            try:
                self._server = self._start_server(module, sys_path)
            except OSError as error:
                raise LaunchError(f"the server that starts ranks could not be started: {error}") from error
        return self._server

    def _attempt(self, request: Launch) -> RankSet:
        """Starts the ranks of one test on the server; raises as ``RankSet.start``."""
        server = self._ready_server(request.module.name, request.sys_path)
        try:
            ranks = RankSet(request)
        except OSError as error:
            raise LaunchError(f"no descriptors for {request.world_size} ranks: {error}") from error
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
        """What became of a server that was lost, for the message of the test that ran."""
        return self._server.how_it_ended() if self._server is not None else "not running"

    def close(self) -> None:
        """Ends the server and waits for it."""
        server, self._server = self._server, None
        if server is not None:
            server.close()


def _answered(error: BaseException) -> bool:
    """False where a launch ended before the server's answer came: by a time-out, or by Ctrl-C."""
    return isinstance(error, LaunchError) and not isinstance(error, StartTimeout)
