"""The spawn launcher: each rank is a new interpreter. For where a fork is not safe; slower, same outcomes.

A small server without torch starts and reaps the interpreters, so that everything but their birth is the
same as with the fork server.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Sequence

from harness.errors import ServerLost
from harness.launch import server
from harness.launch.base import RankSet
from harness.launch.process import _ROOT, ServerProcess, start_interpreter
from harness.protocol import Assignment, Launch, encode

_BOOT = (
    "import sys; sys.path.insert(0, sys.argv.pop(1)); from harness.rank.main import from_exec; from_exec()"
)


class SpawnLauncher:
    """Starts every rank as a new interpreter."""

    name = "spawn"

    def __init__(self) -> None:
        self._server: ServerProcess | None = None

    def launch(self, request: Launch) -> RankSet:
        """Starts ranks; ServerLost if the server dies. A module that does not import is each rank's error."""
        try:
            return self._attempt(request)
        except ServerLost:  # it died since we looked, and no rank has run anything yet
            return self._attempt(request)

    def ready(self, module: str, sys_path: Sequence[str]) -> None:
        """Starts the server if there is none."""
        if self._server is not None and not self._server.alive():
            self.close()
        if self._server is None:
            self._server = start_interpreter("harness.launch.spawn", "serve", sys_path)

    def _attempt(self, request: Launch) -> RankSet:
        self.ready(request.module.name, request.sys_path)
        assert self._server is not None
        ranks = RankSet(request)
        try:
            ranks.start(self._server.control, request, request.start_timeout_s)
        except BaseException:
            ranks.close()
            raise
        return ranks

    def how_it_ended(self) -> str:
        """What became of a server that was lost, for the message of the test that ran."""
        return self._server.how_it_ended() if self._server is not None else "not running"

    def close(self) -> None:
        """Ends the server and waits for it."""
        if self._server is not None:
            self._server.close()
            self._server = None


def serve(control: socket.socket, parent: server.Parent) -> None:
    """Entry of the server."""
    server.main(control, exec_birth, preload=False, parent=parent)


def exec_birth(newborn: server.Newborn) -> int:
    """Starts one rank's interpreter; returns its process id.

    The assignment waits for it as a file on its standard input.
    """
    descriptors = [newborn.channel, newborn.stack, newborn.ledger]
    assignment = Assignment(newborn.rank, newborn.request, descriptors, newborn.server_pid)
    stdin = os.memfd_create("harness-assignment")
    os.write(stdin, encode(assignment))
    os.lseek(stdin, 0, os.SEEK_SET)
    environ = dict(os.environ)
    if newborn.request.threads is not None:
        environ["OMP_NUM_THREADS"] = str(newborn.request.threads)
    flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]  # see process.py
    for fd in descriptors:
        os.set_inheritable(fd, True)
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, *flags, "-c", _BOOT, _ROOT],
        environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, stdin, 0),
            (os.POSIX_SPAWN_DUP2, newborn.output, 1),
            (os.POSIX_SPAWN_DUP2, newborn.output, 2),
        ],
        setpgroup=0,
    )
    for fd in descriptors:
        os.set_inheritable(fd, False)
    os.close(stdin)
    return pid
