"""``ServerLauncher``: a launcher's one server, from the first launch to the end of the process."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from harness.errors import LaunchError
from harness.protocol import Launch
from harness.ranks.processes.rank_set import RankSet, StartTimeout
from harness.system.server_process import ServerProcess


class ServerLauncher(abc.ABC):
    """Owns at most one server; one that is found dead is replaced by the next launch."""

    def __init__(self) -> None:
        self._server: ServerProcess | None = None

    @abc.abstractmethod
    def _start_server(self, module: str, sys_path: Sequence[str]) -> ServerProcess:
        """A new server; OSError where there cannot be one."""

    def ready(self, module: str, sys_path: Sequence[str]) -> None:
        """Starts the server if there is none, before a test changes what the server would inherit.

        ``module`` is the test's, ``sys_path`` what a new interpreter starts with. LaunchError where no
        process can be made.
        """
        self._ready_server(module, sys_path)

    def _ready_server(self, module: str, sys_path: Sequence[str]) -> ServerProcess:
        if self._server is not None and not self._server.alive():
            self.close()
        if self._server is None:
            try:
                self._server = self._start_server(module, sys_path)
            except OSError as error:
                raise LaunchError(f"the server that starts ranks could not be started: {error}") from error
        return self._server

    def _attempt(self, request: Launch) -> RankSet:
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
