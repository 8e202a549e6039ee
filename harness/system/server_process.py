"""``ServerProcess``: starts, watches and ends a server process, which has a pid and a control socket.

The server that forks ranks and the zygote that forks workers are both held this way; each has its own
protocol on the socket. ``start_interpreter`` starts a server as a new interpreter.
"""

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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

from harness.outcomes import exit_text
from harness.system import posix
from harness.system.control_group import MemoryKills
from harness.system.intra_op_threads import SINGLE_THREADED
from harness.wire import socket_from, socket_pair

# The package's parent directory, from which a new interpreter imports `harness` before it gets our sys.path.
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Under -c Python looks for modules in the working directory first, where a test may be called json.py.
WITHOUT_CWD = "import sys; sys.path[:] = filter(None, sys.path); "
_BOOT = (
    f"{WITHOUT_CWD}import json; a = json.loads(sys.argv.pop(1)); sys.path.insert(0, a['root']); "
    "from harness.system.server_process import boot; boot(a)"
)

# What is said of a process that a signal has stopped.
STOPPED = "stopped (as by SIGSTOP)"


class ServerProcess:
    """Owns a server that this process has started; a fork of this process does not own it."""

    def __init__(self, pid: int, control: socket.socket) -> None:
        self.pid = pid
        self.control = control
        self._owner = os.getpid()
        self._code: int | None = None
        self._was_stopped = False
        self._memory_kills = MemoryKills.until_now()

    @property
    def owned(self) -> bool:
        """Whether this process is the one that started the server."""
        return self._owner == os.getpid()

    def alive(self) -> bool:
        """Whether the server runs and this process is the one that started it."""
        return self.owned and self._poll(os.WNOHANG) is None

    def _poll(self, options: int) -> int | None:
        if self._code is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # another wait() in this process took its exit code
                self._code = 0
            else:
                self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def signal(self, signum: int) -> None:
        """Sends a signal to the server, unless it has ended."""
        if self.alive():
            os.kill(self.pid, signum)

    def end_if_stopped(self) -> bool:
        """Kills a server that a signal has stopped, for which others would wait; whether that was so.

        The kernel then ends its ranks or workers, too.
        """
        if not (self.alive() and self._has_stopped() and posix.is_stopped(self.pid)):
            return False
        self._was_stopped = True
        os.kill(self.pid, signal.SIGKILL)
        self._poll(0)
        return True

    def _has_stopped(self) -> bool:
        """Whether the kernel says so of this child, which takes a tenth of the time of reading its state."""
        try:
            return os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:  # it has ended since: one that has ended cannot be stopped any more
            return False

    def wait(self, seconds: float) -> None:
        """Waits for the server's end, and kills the server where that takes longer than ``seconds``.

        One that is stopped would not end by itself, and is killed at once.
        """
        self.end_if_stopped()
        if self.alive() and posix.still_running([self.pid], seconds):
            os.kill(self.pid, signal.SIGKILL)  # the kernel then ends its ranks or workers, too
        if self.owned:
            self._poll(0)

    def exit_text(self) -> str:
        """How the server ended, as an exit code or a signal's name; waits for its end."""
        code = self._poll(0)
        if self._was_stopped:
            return f"{exit_text(code)}, because it was {STOPPED} and others waited for it"
        why = self._memory_kills.explain(code)
        return f"{exit_text(code)} ({why})" if why else exit_text(code)

    def how_it_ended(self) -> str:
        """How the server ended, with its process id; waits for its end."""
        return f"process {self.pid} ended with {self.exit_text()}"


@dataclass(frozen=True, slots=True)
class Parent:
    """The process that started a server; ``watch`` is False where the starting thread may end before it."""

    pid: int
    watch: bool


def this_process() -> Parent:
    """This process as the parent of a server that the calling thread is about to start."""
    return Parent(os.getpid(), watch=threading.current_thread() is threading.main_thread())


@dataclass(frozen=True, slots=True)
class Boot:
    """The command-line argument of a new interpreter, as JSON.

    The interpreter sets ``sys.path`` to ``sys_path`` and calls ``function`` of ``module`` with the socket on
    descriptor ``fd``, the ``parent`` and the keyword ``arguments``.
    """

    module: str
    function: str
    fd: int
    sys_path: list[str]
    parent: Parent
    arguments: dict[str, Any] = field(default_factory=dict)
    root: str = ROOT


def start_interpreter(
    module: str,
    function: str,
    sys_path: Sequence[str],
    *,
    arguments: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] | None = None,
    **streams: Any,
) -> tuple[int, socket.socket]:
    """Starts a new interpreter that calls ``module.function(control, parent, **arguments)``.

    Returns its process id and this end of the control socket, for a ``ServerProcess``. ``environ`` is this
    process's by default; ``streams`` are further keywords of ``subprocess.Popen``. OSError where the system
    has no process or descriptor left.
    """
    with contextlib.ExitStack() as undo:
        near, far = (undo.enter_context(end) for end in socket_pair())
        boot = Boot(module, function, far.fileno(), list(sys_path), this_process(), dict(arguments or {}))
        child = subprocess.Popen(
            [sys.executable, *interpreter_flags(), "-c", _BOOT, json.dumps(dataclasses.asdict(boot))],
            pass_fds=[far.fileno()],
            env={**SINGLE_THREADED, **(os.environ if environ is None else environ), **SINGLE_THREADED},
            **{"stdin": subprocess.DEVNULL, **streams},
        )
        undo.pop_all()
    far.close()
    # ServerProcess waits for the child; a returncode keeps Popen's finaliser from warning about it and from
    # waiting (related: python/cpython#83071).
    child.returncode = 0
    return child.pid, near


def interpreter_flags() -> list[str]:
    """This interpreter's own flags (-W, -X, -O ...), which every process gets because they change verdicts.

    The function is private, but multiprocessing uses it too (google/python-subprocess32#25,
    python/cpython#76275).
    """
    return list(subprocess._args_from_interpreter_flags())  # type: ignore[attr-defined]  # not in typeshed


def boot(argument: dict[str, Any]) -> NoReturn:
    """The first call in a new interpreter, with the fields of a ``Boot``.

    What the function raises, other than KeyboardInterrupt, ends the process with a traceback.
    """
    what = Boot(**{**argument, "parent": Parent(**argument["parent"])})
    control = socket_from(what.fd)
    control.set_inheritable(False)
    sys.path[:] = what.sys_path
    entry = getattr(importlib.import_module(what.module), what.function)
    with contextlib.suppress(KeyboardInterrupt):
        entry(control, what.parent, **what.arguments)
    posix.flush_streams()
    os._exit(0)
