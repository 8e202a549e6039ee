"""``ForkedListing``: has a fork list a module, so that the zygote imports only what the module imports first.

A worker that is forked from such a zygote starts the server of its ranks before it imports the module. Only
the drop-in knows for which modules that is needed.
"""

from __future__ import annotations

import contextlib
import faulthandler
import importlib
import os
import signal
import socket
import sys
from typing import Any, NoReturn

from harness.errors import ProtocolError
from harness.runner.messages import Loaded, decode, encode
from harness.runner.worker_process.listing import Listing, list_module
from harness.settings import EnvVar
from harness.system import posix
from harness.system.signals import WORKER_STACKS
from harness.wire import recv_frame, send_frame, socket_pair


class ForkedListing:
    """The listing of a module in this process, the zygote, or in a fork of it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._zygote = os.getpid()
        self._pid = 0
        self._end: socket.socket | None = None

    @property
    def elsewhere(self) -> bool:
        """Whether this is the zygote, and a fork lists the module."""
        return self._pid != 0

    def list(self) -> Listing:
        """The module's tests, in a fork if one was made; this returns in the zygote as well, with nothing."""
        return list_module(self._name, self._fork)

    def _fork(self, file: str) -> bool:
        """Forks, where ranks may begin with what the module in ``file`` imports first; True in the zygote.

        Called when all that is imported before the module has been.
        """
        if os.environ.get(EnvVar.DROP_IN) != "1" or not _home().prepare(self._name, file):
            return False
        near, far = socket_pair()
        posix.flush_streams()
        self._pid = os.fork()
        self._end, other = (near, far) if self._pid else (far, near)
        other.close()
        if self._pid:
            faulthandler.unregister(WORKER_STACKS)  # of an import that hangs the fork's stack is wanted
            signal.signal(WORKER_STACKS, lambda *_: os.kill(self._pid, WORKER_STACKS))
        else:
            posix.die_with_parent(signal.SIGKILL)
            if os.getppid() != self._zygote:
                os._exit(1)
        return self.elsewhere

    def result(self, loaded: Loaded) -> Loaded | None:
        """What there is to tell of the module: ``loaded``, or in the zygote what the fork tells, which ends.

        None where the fork has died of the import, as the zygote will.
        """
        if os.getpid() != self._zygote:
            self._tell(loaded)
        if self._end is None:
            return loaded
        with self._end:
            try:
                frame = recv_frame(self._end)
            except (OSError, ProtocolError):
                frame = None
        faulthandler.register(WORKER_STACKS, sys.__stderr__ or 2, all_threads=True, chain=False)
        with contextlib.suppress(ChildProcessError):  # where an import had SIGCHLD ignored, the kernel has
            os.waitpid(self._pid, 0)
        answer = decode(frame) if frame is not None else None
        assert answer is None or isinstance(answer, Loaded), answer
        return answer

    def _tell(self, loaded: Loaded) -> NoReturn:
        assert self._end is not None
        send_frame(self._end, encode(loaded))
        posix.flush_streams()
        os._exit(0)


def start_server(name: str) -> None:
    """Starts the server of a module's ranks, in a worker that has not imported the module."""
    _home().start_server(name)


def _home() -> Any:
    return importlib.import_module("harness.dropin.before_import")
