"""The interpreter of a zygote: how it is started, and one that starts while the controller still imports.

Controller and zygote each import for a third of a second before the first test module is. An
``EarlyInterpreter`` has them do so side by side. What it cannot know yet, the settings that options and the
configuration file stand for, comes with the zygote's first message.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any

from harness.errors import UsageError
from harness.runner.selection.shard_variables import VARIABLES
from harness.system.intra_op_threads import SINGLE_THREADED
from harness.system.logged_server import LoggedServer, new_log
from harness.system.server_process import ROOT, start_interpreter

# How the variables begin that nothing reads before the first test module is imported: neither Python and the
# libraries of the system when the interpreter starts nor the harness while it is imported.
_READ_LATER = ("HARNESS_", "PYTORCH_")


@dataclass(frozen=True, slots=True)
class Interpreter:
    """An interpreter that has been started for a zygote, its socket, and the log of its output.

    ``changes`` are the variables that its environment lacks, or with None has and must not.
    """

    pid: int
    control: socket.socket
    log: IO[bytes]
    changes: Mapping[str, str | None]


def start(
    environ: Mapping[str, str],
    sys_path: Sequence[str],
    *,
    inherit_streams: bool = False,
    relay_to: Mapping[str, Any] | None = None,
) -> Interpreter:
    """Starts an interpreter; OSError where that is impossible, UsageError where no log can be made.

    ``inherit_streams`` is as in ``ZygoteProcess``. With ``relay_to``, the fields of a host, that is a relay.
    """
    path = _path(sys_path)
    module, function = "harness.runner.worker_process.zygote", "main"
    arguments: dict[str, Any] = {"guarded": {name: environ.get(name) for name in SINGLE_THREADED}}
    if relay_to is not None:
        module, function = "harness.runner.workers.zygote_relay", "serve"
        arguments |= {"host": relay_to, "sys_path": path}
    log = new_log()
    try:
        pid, control = start_interpreter(
            module,
            function,
            path,
            arguments=arguments,
            environ=environ,
            stdin=None if inherit_streams else subprocess.DEVNULL,
            start_new_session=not inherit_streams,
            **({} if inherit_streams else {"stdout": log, "stderr": log}),
        )
    except OSError:
        log.close()
        raise
    return Interpreter(pid, control, log, {})


def _path(sys_path: Sequence[str]) -> list[str]:
    return [ROOT, *(p for p in sys_path if p != ROOT)]


class EarlyInterpreter:
    """An interpreter of this process's environment, from when the context is entered until it is taken.

    Leaving the context ends one that nobody has taken. Where none can be started there is none: who starts
    one later is told why.
    """

    def __init__(self) -> None:
        self._started: Interpreter | None = None
        self._environ = dict(os.environ)
        self._surroundings = _surroundings(sys.path)

    def __enter__(self) -> EarlyInterpreter:
        with contextlib.suppress(OSError, UsageError):
            self._started = start(self._environ, sys.path)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        left, self._started = self._started, None
        if left is not None:
            server = LoggedServer(left.pid, left.control, left.log)
            server.signal(signal.SIGKILL)  # it has no children yet
            server.exit_text()
            server.control.close()
            server.close_log()

    def take(self, environ: Mapping[str, str], sys_path: Sequence[str]) -> Interpreter | None:
        """Gives the interpreter away, to be told its ``changes``; None where it has to be another one.

        So it is where a variable differs that an interpreter reads when it starts, the path or the working
        directory.
        """
        changes = {name: value for name, value in environ.items() if self._environ.get(name) != value}
        gone = self._environ.keys() - environ.keys()
        late = all(map(_is_read_later, (*changes, *gone)))
        if self._started is None or not late or self._surroundings != _surroundings(sys_path):
            return None
        taken, self._started = self._started, None
        return Interpreter(taken.pid, taken.control, taken.log, {**changes, **dict.fromkeys(gone)})


def _surroundings(sys_path: Sequence[str]) -> tuple[str, list[str]]:
    try:
        return os.getcwd(), _path(sys_path)
    except OSError:  # the directory is gone
        return "", _path(sys_path)


def _is_read_later(name: str) -> bool:
    return name.startswith(_READ_LATER) or name in VARIABLES
