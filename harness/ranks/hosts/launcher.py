"""``HostsLauncher``: starts rank processes on the hosts of a run, by a relay that stands in for a server."""

from __future__ import annotations

import os
from collections.abc import Sequence

from harness import environment
from harness.errors import LaunchError, ServerLost
from harness.protocol import Launch
from harness.ranks.processes.launcher import LaunchServer, ServerLauncher
from harness.ranks.processes.rank_set import RankSet
from harness.settings import EnvVar
from harness.system.closing import on_close
from harness.system.per_process import PerProcess
from harness.system.server_process import start_interpreter


class HostsLauncher(ServerLauncher):
    """Keeps one relay for the life of this process; the hosts' own servers stay warm as long."""

    name = "hosts"

    def launch(self, request: Launch) -> RankSet:
        """Starts ranks; LaunchError, with the host's name, where a host cannot start its own."""
        try:
            return self._attempt(request)
        except ServerLost:  # it died since it was last checked; no rank has run anything yet
            return self._attempt(request)

    def _start_server(self, module: str, sys_path: Sequence[str]) -> LaunchServer:
        settings = environment.settings()
        key_file = os.environ.get(EnvVar.KEY_FILE)
        if not key_file:
            raise LaunchError(
                f"{EnvVar.HOSTS} is set without {EnvVar.KEY_FILE}: start the tests with --hosts"
            )
        arguments = {"hosts": settings.hosts, "key_file": key_file, "lost_after_s": settings.host_timeout_s}
        return LaunchServer(
            *start_interpreter("harness.ranks.hosts.relay", "serve", sys_path, arguments=arguments)
        )


def _begin() -> HostsLauncher:
    made = HostsLauncher()
    on_close(made.close)
    return made


_launcher = PerProcess(_begin)


def own_launcher() -> HostsLauncher:
    """This process's launcher over hosts."""
    return _launcher.get()
