"""Ctrl-C and its relatives: the first ends the run in good order, the second at once."""

from __future__ import annotations

import contextlib
import os
import signal
import types
from collections.abc import Callable, Iterator

from harness.runner.exit_codes import ExitCode

# What a terminal, a CI system or a batch scheduler sends to have a program end.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the signals that ask for an end, and makes a descriptor readable at each.

    A context manager; the handlers are those of the process, so there is one at a time, in the main thread.
    A hang-up that whoever started the process has it ignore (``nohup``) stays ignored.
    """

    def __init__(self) -> None:
        self.count = 0
        self._at_once: Callable[[], None] = lambda: None
        self._ignored: Callable[[], bool] = lambda: False
        self._read, self._write = os.pipe()
        for fd in (self._read, self._write):
            os.set_blocking(fd, False)
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        hang_up_ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        numbers = (n for n in SIGNALS if n != signal.SIGHUP or not hang_up_ignored)
        self._before = {number: signal.signal(number, self._take) for number in numbers}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal gave us
        os.close(self._read)
        os.close(self._write)

    @contextlib.contextmanager
    def handled(self, *, at_once: Callable[[], None], ignored: Callable[[], bool]) -> Iterator[None]:
        """While the context lasts, ``at_once`` is called before a second signal ends this process, and a
        Ctrl-C does not count where ``ignored`` says so: a debugger that shares the terminal takes it."""
        before = self._at_once, self._ignored
        self._at_once, self._ignored = at_once, ignored
        try:
            yield
        finally:
            self._at_once, self._ignored = before

    def fileno(self) -> int:
        """The descriptor that becomes readable."""
        return self._read

    def drain(self) -> None:
        """Takes note: the descriptor is readable again at the next signal only."""
        try:
            os.read(self._read, 4096)
        except BlockingIOError:
            return

    def _take(self, number: int, frame: types.FrameType | None) -> None:
        if number == signal.SIGINT and self._ignored():
            return
        self.count += 1
        if self.count > 1:
            self._at_once()
            os._exit(ExitCode.INTERRUPTED)
        os.write(self._write, b"!")
