"""The fork-server launcher: forks ranks from a warm, single-threaded process that has imported torch.

The server is forked from this process where forking is safe (one thread by the operating system's count, no
accelerator context) and the fork begins as a new process would, and is a new interpreter otherwise. A process
has one server, which its first launch starts.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import os
import socket
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import NoReturn

from harness.errors import LaunchError, ServerLost
from harness.protocol import Assignment, Launch
from harness.ranks.processes import preload, rank, server
from harness.ranks.processes.late_imports import imported_of_torch
from harness.ranks.processes.launcher import Launcher, LaunchServer, ServerLauncher
from harness.ranks.processes.rank_set import DirtyModule, RankSet
from harness.system import posix, runner_settings
from harness.system.fork_safety import IMPORTED, begins_as_new, without_fork_warning
from harness.system.server_process import Parent, start_interpreter, this_process
from harness.wire import socket_pair


class ForkServerLauncher(ServerLauncher):
    """Forks ranks from a server that is kept for the life of this process.

    A module that starts threads when it is imported is not imported in the server, but in each rank; what it
    imports of torch still is, unless that starts threads, too. Where a new server has threads even so
    (because of sitecustomize, a debugger, a library that torch loads), no fork of it is safe: from then on
    ``fallback`` starts the ranks, if there is one. A module that ranks are to import themselves
    (``Launch.preload``) needs a server that has not imported it: one that was forked before this process did,
    else a new interpreter, which imports what the module imports first.
    """

    name = "forkserver"

    def __init__(self, fallback: Callable[[], Launcher] | None = None) -> None:
        super().__init__()
        self._fallback = fallback
        self._instead: Launcher | None = None
        self._dirty: set[str] = set()
        self._bare: set[str] = set()  # those whose ranks torch's modules have to be left to as well
        self._imported_by_ranks: set[str] = set()
        # Whether the server is a fork of this process, with all that this has imported, and the module before
        # whose import it was forked.
        self._forked = False
        self._forked_before: str | None = None

    def ready(self, module: str, sys_path: Sequence[str]) -> None:
        """Starts the server if there is none; see ``ServerLauncher.ready``."""
        if self._instead is not None:
            self._instead.ready(module, sys_path)
        else:
            super().ready(module, sys_path)

    def launch(self, request: Launch) -> RankSet:
        """Starts ranks; LaunchError if the test's module does not import, ServerLost if the server dies."""
        lost = False
        if not request.preload:
            self._imported_by_ranks.add(request.module.name)
            if self._forked and request.module.name != self._forked_before:
                self.close()
        while self._instead is None:
            trial = self._trial(request)
            try:
                return self._attempt(trial)
            except DirtyModule as error:
                self.close()
                if not (trial.preload or trial.imports):
                    self._instead = self._resort(error)
                (self._bare if request.module.name in self._dirty else self._dirty).add(request.module.name)
            except ServerLost:  # it died since it was last checked; no rank has run anything yet
                if lost:
                    raise
                lost = True
        return self._instead.launch(request)

    def _trial(self, request: Launch) -> Launch:
        """The request for ranks that import by themselves what may start threads, as far as that is known.

        Torch's modules start none in most processes: ranks find those that the parent has imported.
        """
        if request.module.name not in self._dirty:
            return request
        imports = [] if request.module.name in self._bare else imported_of_torch()
        return dataclasses.replace(request, preload=False, imports=imports)

    def _resort(self, error: DirtyModule) -> Launcher:
        if self._fallback is None:
            raise LaunchError(
                "every new Python process has threads here (started by sitecustomize, a debugger, a library "
                "that torch loads?), so ranks cannot be forked: set HARNESS_LAUNCHER=spawn, or leave it unset"
            ) from error
        return self._fallback()

    def _start_server(self, module: str, sys_path: Sequence[str]) -> LaunchServer:
        self._forked = module not in self._dirty | self._imported_by_ranks and begins_as_new()
        self._forked_before = module if module not in sys.modules else None
        return _fork_server() if self._forked else _fresh_server(sys_path)

    def how_it_ended(self) -> str:
        """How a server that was lost ended, for the message of the test that was running."""
        return self._instead.how_it_ended() if self._instead is not None else super().how_it_ended()


def fork_rank(assignment: Assignment, close: Sequence[int]) -> int:
    """Forks the server into one rank; returns the rank's process id, and returns in the server only."""
    pid = os.fork()
    if pid == 0:
        rank.from_fork(assignment, close)
    return pid


def _fork_server() -> LaunchServer:
    posix.flush_streams()
    parent = this_process()
    with contextlib.ExitStack() as undo:
        near, far = (undo.enter_context(end) for end in socket_pair())
        with without_fork_warning():
            pid = os.fork()
        if pid == 0:
            near.close()
            _serve_forked(far, parent)
        undo.pop_all()
    far.close()
    return LaunchServer(pid, near)


def _serve_forked(control: socket.socket, parent: Parent) -> NoReturn:
    """Serves requests in the forked server and ends by ``os._exit``; never returns to the parent's frames."""
    code = 1
    try:
        server.close_on_to_null({control.fileno()})
        server.detach_stdio()
        runner_settings.leave()
        IMPORTED.restore()
        server.main(control, fork_rank, preload=True, parent=parent)
        code = 0
    except BaseException:  # noqa: BLE001 - must not reach the parent's frames; the parent reads the exit code
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
    finally:
        os._exit(code)


def _fresh_server(sys_path: Sequence[str]) -> LaunchServer:
    """Starts the server as a new interpreter; the first request names the modules that it imports."""
    return LaunchServer(*start_interpreter(__name__, "serve_fresh", sys_path))


def serve_fresh(control: socket.socket, parent: Parent) -> None:
    """The entry point of a server that is a new interpreter: imports torch, then serves requests."""
    gc.disable()  # as the server does; collections take a tenth of the time of an import of torch
    preload.import_torch()
    server.main(control, fork_rank, preload=True, parent=parent)
