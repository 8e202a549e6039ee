"""A server process as its parent holds it: a process id and a control socket, with one owner."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from harness.outcomes import exit_text
from harness.protocol import Release, encode
from harness.ranks.processes.server import Parent
from harness.system import posix
from harness.wire import send_frame

# The package's parent directory: a new interpreter finds `harness` there before it has our sys.path.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
_BOOT = (
    "import json, sys; a = json.loads(sys.argv.pop(1)); sys.path.insert(0, a['root']); "
    "from harness.system.server_process import boot; boot(a)"
)
# Pools that a library would start while it is imported would leave the server with threads: keep each of
# them at one thread until ranks get the parent's environment.
_SINGLE_THREADED = {"OPENBLAS_NUM_THREADS": "1", "GOTO_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
# Seconds for a dismissed server to end its ranks, what they leave behind, and itself.
CLOSE_WAIT_S = 5.0
# Seconds for the same where the server was told by a signal, too: one whose import cannot be broken off, and
# only such a one, is worth no longer a wait.
STOP_WAIT_S = 2.0


class ServerProcess:
    """Owns a server: ``close`` or ``stop`` ends it and waits for it, for a bounded time before it is killed.
    A fork of this process does not own it.
    """

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.control = control
        self._owner = os.getpid()
        self._code: int | None = None

    def alive(self) -> bool:
        """True while the server runs and this process is the one that started it."""
        return self._owner == os.getpid() and self._poll(os.WNOHANG) is None

    def _poll(self, options: int) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # somebody else's wait() took its exit code
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def how_it_ended(self) -> str:
        """Its end in words; it must have ended."""
        return f"process {self.pid} ended with {exit_text(self._poll(0))}"

    def close(self) -> None:
        """Dismisses a server that listens, and waits for its end."""
        self._dismiss()
        self._await_end(CLOSE_WAIT_S)

    def stop(self) -> None:
        """Ends a server that does not listen, because it imports a module, say; and with it its ranks."""
        self._dismiss()  # first, so that it knows the scratch directory to be in use still
        if self.alive():
            os.kill(self.pid, signal.SIGTERM)
        self._await_end(STOP_WAIT_S)

    def _dismiss(self) -> None:
        if self._owner == os.getpid() and self.control.fileno() >= 0:
            self.control.settimeout(0)  # no room for a word: it has not listened for a long time
            with contextlib.suppress(OSError):  # it is gone already
                send_frame(self.control, encode(Release()))
        self.control.close()

    def _await_end(self, seconds: float) -> None:
        if self.alive() and posix.still_running([self.pid], seconds):
            os.kill(self.pid, signal.SIGKILL)  # the kernel ends its ranks with it
        if self._owner == os.getpid():
            self._poll(0)


def this_process() -> Parent:
    """This process as the parent of a server that the calling thread is about to start."""
    return Parent(os.getpid(), watch=threading.current_thread() is threading.main_thread())


@dataclass(frozen=True, slots=True)
class Boot:
    """What a new interpreter is told on its command line, as JSON: which function of which module to call, on
    which descriptor, with which ``sys.path``, and by whom it was started."""

    module: str
    function: str
    fd: int
    sys_path: list[str]
    parent: Parent
    root: str = ROOT


def start_interpreter(module: str, function: str, sys_path: Sequence[str]) -> ServerProcess:
    """Starts a new interpreter that calls ``module.function(control, parent)``.

    OSError where no process or descriptor is left.
    """
    with contextlib.ExitStack() as undo:
        near, far = (undo.enter_context(end) for end in socket.socketpair())
        what = Boot(module, function, far.fileno(), list(sys_path), this_process())
        # The interpreter's own flags (-W, -X, -O ...) decide verdicts, so ranks get them too;
        # multiprocessing asks the same function, which has no public name.
        flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
        child = subprocess.Popen(
            [sys.executable, *flags, "-c", _BOOT, json.dumps(dataclasses.asdict(what))],
            stdin=subprocess.DEVNULL,
            pass_fds=[far.fileno()],
            env={**_SINGLE_THREADED, **os.environ, **_SINGLE_THREADED},
        )
        undo.pop_all()
    far.close()
    child.returncode = 0  # ours to wait for: Popen's finaliser must not
    return ServerProcess(child.pid, near)


def boot(argument: dict[str, Any]) -> NoReturn:
    """First call in a new interpreter, with the fields of a ``Boot``. What the function raises, other than
    Ctrl-C, ends the process with a traceback."""
    what = Boot(**{**argument, "parent": Parent(**argument["parent"])})
    control = socket.socket(fileno=what.fd)
    control.set_inheritable(False)
    sys.path[:] = what.sys_path
    entry = getattr(importlib.import_module(what.module), what.function)
    with contextlib.suppress(KeyboardInterrupt):
        entry(control, what.parent)
    sys.stdout.flush()
    os._exit(0)
