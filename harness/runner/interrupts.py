"""Handles SIGINT, SIGTERM and SIGHUP: the first signal ends the run in good order, the second at once."""

from __future__ import annotations

import contextlib
import os
import signal
import types
from collections.abc import Callable, Iterable, Iterator

from harness.runner.exit_codes import ExitCode

# The signals by which terminals, CI systems and batch schedulers ask a program to end.
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the signals that ask for an end, and makes a descriptor readable at each of them.

    A context manager for the main thread. Signal handlers belong to the whole process, so at most one may be
    active at a time. SIGINT and SIGHUP stay ignored where the process was started so (``&`` in a script,
    ``nohup``); what the process was started with blocked is not blocked inside.
    """

    def __init__(self) -> None:
        self.count = 0
        self._at_once: Callable[[], None] = lambda: None
        self._ignored: Callable[[], bool] = lambda: False
        self._read, self._write = os.pipe()
        for fd in (self._read, self._write):
            os.set_blocking(fd, False)
        self._before: dict[int, object] = {}
        self._blocked: Iterable[int] = ()

    def __enter__(self) -> Interrupts:
        self._before = {n: signal.signal(n, self._take) for n in SIGNALS if not _stays_ignored(n)}
        self._blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        signal.pthread_sigmask(signal.SIG_SETMASK, self._blocked)
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]  # what signal.signal gave us
        os.close(self._read)
        os.close(self._write)

    @contextlib.contextmanager
    def handled(self, *, at_once: Callable[[], None], ignored: Callable[[], bool]) -> Iterator[None]:
        """Sets the callbacks of the signals for as long as the context lasts.

        ``at_once`` is called before a second signal ends this process. Ctrl-C does not count while
        ``ignored`` returns True: a debugger that shares the terminal handles it.
        """
        before = self._at_once, self._ignored
        self._at_once, self._ignored = at_once, ignored
        try:
            yield
        finally:
            self._at_once, self._ignored = before

    def fileno(self) -> int:
        """The descriptor that becomes readable at a signal."""
        return self._read

    def drain(self) -> None:
        """Empties the descriptor, so that it becomes readable only at the next signal."""
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


def _stays_ignored(number: int) -> bool:
    """Whether a signal was ignored when this process was started, by the shell or by ``nohup``."""
    return number != signal.SIGTERM and signal.getsignal(number) is signal.SIG_IGN
