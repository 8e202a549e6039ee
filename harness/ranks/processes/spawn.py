"""The spawn launcher: starts each rank as a new interpreter, for where a fork is not safe; slower.

A small server without torch starts and reaps the interpreters, so that everything except the start of a rank
is the same as with the fork server.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Sequence

from harness.errors import ServerLost
from harness.protocol import Assignment, Launch, encode
from harness.ranks.processes import server
from harness.ranks.processes.launcher import LaunchServer, ServerLauncher
from harness.ranks.processes.rank_set import RankSet
from harness.system.server_process import ROOT, WITHOUT_CWD, Parent, interpreter_flags, start_interpreter

_BOOT = (
    f"{WITHOUT_CWD}sys.path.insert(0, sys.argv.pop(1)); "
    "from harness.ranks.processes.rank import from_exec; from_exec()"
)


class SpawnLauncher(ServerLauncher):
    """Starts every rank as a new interpreter."""

    name = "spawn"

    def launch(self, request: Launch) -> RankSet:
        """Starts ranks; ServerLost if the server dies. A failing import is an error of each rank."""
        try:
            return self._attempt(request)
        except ServerLost:  # it died since it was last checked; no rank has run anything yet
            return self._attempt(request)

    def _start_server(self, module: str, sys_path: Sequence[str]) -> LaunchServer:
        """Starts a server; the module is not used, because ranks import it and the server never does."""
        return LaunchServer(*start_interpreter(__name__, "serve", sys_path))


def serve(control: socket.socket, parent: Parent) -> None:
    """The entry point of the server."""
    server.main(control, exec_rank, preload=False, parent=parent)


def exec_rank(assignment: Assignment, close: Sequence[int]) -> int:
    """Starts one rank's interpreter and returns its process id.

    The rank reads its assignment from a file on standard input. The descriptors in ``close`` need no closing,
    because no descriptor survives the exec unless it is made inheritable.
    """
    handed_on = (assignment.channel, assignment.stack, assignment.log)
    stdin = os.memfd_create("harness-assignment")
    try:
        os.write(stdin, encode(assignment))
        os.lseek(stdin, 0, os.SEEK_SET)
        for fd in handed_on:
            os.set_inheritable(fd, True)
        return os.posix_spawn(
            sys.executable,
            [sys.executable, *interpreter_flags(), "-c", _BOOT, ROOT],
            os.environ,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, assignment.output, 1),
                (os.POSIX_SPAWN_DUP2, assignment.output, 2),
            ],
            setpgroup=0,
        )
    finally:
        for fd in handed_on:
            os.set_inheritable(fd, False)
        os.close(stdin)
