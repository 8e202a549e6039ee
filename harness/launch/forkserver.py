"""The fork-server launcher: ranks forked from a warm, single-threaded process that has imported torch.

The server is forked from this process while it is clean (one thread by the operating system's count, no
accelerator context), and is started afresh otherwise. One server a process, started by the first launch.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import sys
import threading
import traceback
from collections.abc import Sequence
from typing import NoReturn

from harness.errors import LaunchError, ServerLost
from harness.launch import posix, server
from harness.launch.base import DirtyModule, RankSet, StartTimeout
from harness.launch.process import ServerProcess, start_interpreter, this_process
from harness.protocol import Launch
from harness.rank import main as rank_main


class ForkServerLauncher:
    """Forks ranks from a server that is kept for the life of this process.

    A server that is found dead is replaced at the next launch.
    """

    name = "forkserver"

    def __init__(self) -> None:
        self._server: ServerProcess | None = None
        self._dirty: set[str] = set()

    def ready(self, module: str, sys_path: Sequence[str]) -> None:
        """Starts the server if there is none, before a test changes what the server would inherit."""
        self._ready_server(module, sys_path)

    def launch(self, request: Launch) -> RankSet:
        """Starts ranks; LaunchError if the test's module does not import, ServerLost if the server dies."""
        lost: ServerLost | None = None
        for _ in range(2):
            request = _without_preload(request) if request.module.name in self._dirty else request
            try:
                return self._attempt(request)
            except DirtyModule:
                self._dirty.add(request.module.name)
                self.close()
            except ServerLost as error:  # it died since we looked, and no rank has run anything yet
                lost = error
        raise lost or LaunchError(f"{request.module.name} leaves threads in every process that imports it")

    def _attempt(self, request: Launch) -> RankSet:
        ranks = RankSet(request)
        try:
            server = self._ready_server(request.module.name, request.sys_path)
            ranks.start(server.control, request, request.start_timeout_s)
        except BaseException as error:
            if self._server is not None and not _answered(error):
                self._server.stop()
            ranks.close()
            if self._server is not None and not self._server.alive():
                self.close()
            raise
        return ranks

    def _ready_server(self, module: str, sys_path: Sequence[str]) -> ServerProcess:
        if self._server is not None and not self._server.alive():
            self.close()
        if self._server is None:
            fork_here = is_clean() and module not in self._dirty
            self._server = _fork_server() if fork_here else _fresh_server(sys_path)
        return self._server

    def how_it_ended(self) -> str:
        """What became of a server that was lost, for the message of the test that ran."""
        return self._server.how_it_ended() if self._server is not None else "not running"

    def close(self) -> None:
        """Ends the server and waits for it."""
        if self._server is not None:
            self._server.close()
            self._server = None


def _without_preload(request: Launch) -> Launch:
    return dataclasses.replace(request, preload=False)


def _answered(error: BaseException) -> bool:
    """False where a launch ended before the server's answer came: by a time-out, or by Ctrl-C."""
    return isinstance(error, LaunchError) and not isinstance(error, StartTimeout)


def is_clean() -> bool:
    """True where this process may be forked into a server: no thread that a fork would miss, and no
    accelerator context."""
    return threading.active_count() == 1 and not _has_accelerator_context() and posix.forkable()


def _has_accelerator_context() -> bool:
    torch = sys.modules.get("torch")
    devices = [getattr(torch, name, None) for name in ("cuda", "xpu", "hpu", "mtia")] if torch else []
    return any(d is not None and hasattr(d, "is_initialized") and d.is_initialized() for d in devices)


def fork_birth(newborn: server.Newborn) -> int:
    """Forks the server into one rank; returns the rank's process id, in the server only."""
    pid = os.fork()
    if pid == 0:
        rank_main.from_fork(newborn)
    return pid


def _fork_server() -> ServerProcess:
    near, far = socket.socketpair()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(AttributeError, ValueError, OSError):  # None, closed, or somebody's stand-in
            stream.flush()
    parent = this_process()
    pid = os.fork()
    if pid == 0:
        near.close()
        _serve_forked(far, parent)
    far.close()
    return ServerProcess(pid, near)


def _serve_forked(control: socket.socket, parent: server.Parent) -> NoReturn:
    """Never returns into the parent's frames, whatever happens."""
    code = 1
    try:
        server.close_on_to_null({control.fileno()})
        server.detach_stdio()
        server.main(control, fork_birth, preload=True, parent=parent)
        code = 0
    except BaseException:  # noqa: BLE001 - the parent's frames below must not see it; it reads the exit code
        with contextlib.suppress(OSError, ValueError):
            traceback.print_exc()
    finally:
        os._exit(code)


def _fresh_server(sys_path: Sequence[str]) -> ServerProcess:
    """A server in a new interpreter; the first request brings the imports."""
    return start_interpreter("harness.launch.forkserver", "serve_fresh", sys_path)


def serve_fresh(control: socket.socket, parent: server.Parent) -> None:
    """Entry of a fresh server: warm up, then serve."""
    import torch  # noqa: F401 - what this process is for

    server.main(control, fork_birth, preload=True, parent=parent)
