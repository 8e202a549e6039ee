"""The zygote as the controller holds it: a process, a control socket, a log; one owner, a context manager."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time
import types
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from harness.outcomes import exit_text
from harness.runner.messages import Fork, Kill, Load, Loaded, Loading, Message, Ready, decode, encode
from harness.runner.signals import STACK_SIGNAL
from harness.wire import FrameReader, read_available, send_fds, send_frame

# The package's parent directory: the new interpreter finds `harness` there before it has our sys.path.
_ROOT = str(Path(__file__).resolve().parents[2])
_BOOT = (
    "import json, sys; a = json.loads(sys.argv.pop(1)); sys.path[:] = a.pop('sys_path'); "
    "from harness.runner.zygote import main; main(**a)"
)
# Libraries that would start a thread pool while they are imported are kept at one thread, or the zygote
# could not be forked safely; workers get the values that the user had.
GUARDS = ("OPENBLAS_NUM_THREADS", "GOTO_NUM_THREADS", "MKL_NUM_THREADS")
# Seconds for one module's import. Torch and transformers together take ten on a cold disk; a module that
# takes five minutes hangs.
IMPORT_TIMEOUT_S = 300.0
# Seconds for the stacks of a hanging import to arrive.
STACKS_S = 2.0
# Seconds for a zygote to end its workers and itself. It only has to call kill and wait.
CLOSE_S = 10.0
assert STACKS_S < CLOSE_S < IMPORT_TIMEOUT_S
# Bytes of its log that a message quotes.
LOG_TAIL_BYTES = 8 * 1024


class ZygoteLost(Exception):
    """The zygote is gone; the message says how it ended and what it said last."""


class ZygoteProcess:
    """Owns a zygote. Leaving the context ends it, its workers, and what they left behind."""

    def __init__(self, environ: Mapping[str, str], sys_path: Sequence[str], *, inherit_streams: bool) -> None:
        """Starts the interpreter. With ``inherit_streams`` it has our standard streams, session and process
        group, and so have its workers; otherwise its output goes to a log."""
        near, far = socket.socketpair()
        self.control = near
        self._reader = FrameReader()
        self._log = tempfile.TemporaryFile(prefix="harness-zygote-")  # noqa: SIM115 - closed by close()
        guarded = {name: environ.get(name) for name in GUARDS}
        with far:
            argument = {
                "sys_path": [_ROOT, *(p for p in sys_path if p != _ROOT)],
                "control_fd": far.fileno(),
                "guarded": guarded,
                "controller": os.getpid(),
            }
            # The interpreter's own flags (-W, -X, -O ...) decide verdicts, so tests get them too;
            # multiprocessing asks the same function, which has no public name.
            flags = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
            self._process = subprocess.Popen(
                [sys.executable, *flags, "-c", _BOOT, json.dumps(argument)],
                stdin=None if inherit_streams else subprocess.DEVNULL,
                stdout=None if inherit_streams else self._log,
                stderr=None if inherit_streams else self._log,
                pass_fds=[far.fileno()],
                env={**environ, **dict.fromkeys(GUARDS, "1")},
                start_new_session=not inherit_streams,
            )

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def __enter__(self) -> ZygoteProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes the socket, which ends zygote and workers, and waits for that; kills what does not go."""
        if self.control.fileno() < 0:
            return
        with contextlib.suppress(OSError):
            self.control.shutdown(socket.SHUT_WR)
            self.control.settimeout(CLOSE_S)
            while self.control.recv(65536):
                continue
        self.control.close()
        self.kill_unless_ended()
        self._log.close()

    def kill_unless_ended(self) -> None:
        """Waits for the end that a closed socket promises, not for ever."""
        pidfd = os.pidfd_open(self.pid) if self._process.returncode is None else -1
        if pidfd >= 0:
            poll = select.poll()
            poll.register(pidfd, select.POLLIN)
            if not poll.poll(CLOSE_S * 1000):
                self._process.kill()
            os.close(pidfd)
        self._process.wait()

    def lost(self) -> ZygoteLost:
        """What to say about a zygote whose socket has ended: how it ended, and its last words."""
        self.kill_unless_ended()
        return ZygoteLost(f"{exit_text(self._process.returncode)}{self._last_words()}")

    def _last_words(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOG_TAIL_BYTES))
        text = self._log.read().decode(errors="backslashreplace").strip()
        return f"\n{text}" if text else ""

    def send(self, message: Load | Kill) -> None:
        """Sends an order; ZygoteLost where nobody takes it."""
        try:
            send_frame(self.control, encode(message))
        except OSError:
            raise self.lost() from None

    def send_fork(self, order: Fork, fds: Sequence[int]) -> None:
        """Sends the order for a worker with its descriptors; ZygoteLost where nobody takes it."""
        try:
            send_frame(self.control, encode(order))
            send_fds(self.control, fds)
        except OSError:
            raise self.lost() from None

    def receive(self) -> list[Message]:
        """What it has said, once the control socket is readable; ZygoteLost where it is gone."""
        data = read_available(self.control.fileno())
        if data is None:
            raise self.lost()
        return [decode(frame) for frame in self._reader.feed(data)]

    def load(self, modules: Sequence[str], path: Sequence[str], wake: int) -> Iterator[Loaded]:
        """Has modules imported and yields what each came to. No worker may run.

        A module that takes too long, or that ends the process, is yielded with its error, and then ZygoteLost
        is raised. KeyboardInterrupt where ``wake`` becomes readable: somebody wants to stop; the zygote is
        ended then, for it would import the other modules before it looked up.
        """
        self.send(Load(list(modules), list(path)))
        current = ""
        deadline = time.monotonic() + IMPORT_TIMEOUT_S
        while True:
            readable, _, _ = select.select(
                [self.control.fileno(), wake], [], [], max(0.0, deadline - time.monotonic())
            )
            if wake in readable:
                self._process.kill()
                raise KeyboardInterrupt
            try:
                messages = self.receive() if readable else self._give_up_import()
            except ZygoteLost as lost:
                if current:
                    yield Loaded(current, [], error=f"importing {current} ended the process: {lost}")
                raise
            for message in messages:
                if isinstance(message, Ready):
                    return
                if isinstance(message, Loading):
                    current, deadline = message.module, time.monotonic() + IMPORT_TIMEOUT_S
                elif isinstance(message, Loaded):
                    current = ""
                    yield message

    def _give_up_import(self) -> list[Message]:
        """Has an import that hangs say where, and ends the zygote."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(STACK_SIGNAL)
            select.select([self.control], [], [], STACKS_S)
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        raise ZygoteLost(f"no end after {IMPORT_TIMEOUT_S:.0f} s{self._last_words()}")
