"""``Looks``: a look at the run when a person asks for it, by SIGUSR1 or by Enter at the terminal.

Who asks gets what runs and where each rank is (``harness/look``). It is found out in a thread, so that the
run goes on meanwhile, and from outside: no test is signalled or stopped.
"""

from __future__ import annotations

import os
import queue
import select
import signal
import threading
import types
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING

from harness.errors import HarnessError
from harness.report.text import clock_text, count

if TYPE_CHECKING:
    from harness.look.report import SeenTest

# Which signal asks. The process of a run has no tests, so nobody else's handler is replaced.
SIGNAL = signal.SIGUSR1
# Seconds for which the end of a run waits for a look.
LEAVE_S = 1.0
# The most bytes of a line that somebody types to ask.
LINE_BYTES = 4096


class Looks:
    """Hears the requests of a run, from when the context is entered, and answers them.

    ``terminal`` is the descriptor at which Enter asks, None for none. A look that was asked for before
    ``begin`` is first called is made then.
    """

    def __init__(self, terminal: int | None = None) -> None:
        self._terminal = terminal
        self._read, self._write = os.pipe()
        for fd in (self._read, self._write):
            os.set_blocking(fd, False)
        self._asked = False
        self._thread: threading.Thread | None = None
        self._answers: queue.SimpleQueue[list[str]] = queue.SimpleQueue()
        self._before: Callable[[int, types.FrameType | None], object] | int | None = None

    def __enter__(self) -> Looks:
        self._before = signal.signal(SIGNAL, self._take)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(SIGNAL, self._before)
        if self._thread is not None:
            self._thread.join(LEAVE_S)
            if self._thread.is_alive():  # it writes to the pipe when it is done
                return
        os.close(self._read)
        os.close(self._write)

    def _drain(self) -> None:
        try:
            os.read(self._read, 4096)
        except BlockingIOError:
            return

    def watched_by(
        self, watch: Callable[[int, Callable[[], object]], None], unwatch: Callable[[int], None]
    ) -> None:
        """Has a loop wait for requests: its functions add a descriptor with a callback, and remove one."""
        watch(self._read, self._drain)
        terminal = self._terminal
        if terminal is not None:
            watch(terminal, lambda: None if self._take_line(terminal) else unwatch(terminal))

    def _take_line(self, terminal: int) -> bool:
        """Takes the line that was typed at the terminal as a request; False where it is not ours to read.

        That is so at its end, and in a run in the background, which would be stopped for it.
        """
        if not has_terminal(terminal) or not select.select([terminal], [], [], 0)[0]:
            return False
        try:
            line = os.read(terminal, LINE_BYTES)
        except OSError:
            return False
        self._asked = self._asked or bool(line)
        return bool(line)

    @property
    def asked(self) -> bool:
        """Whether somebody has asked and no look is being made."""
        return self._asked and (self._thread is None or not self._thread.is_alive())

    def begin(self, tests: Sequence[SeenTest], ended: int, since_s: float) -> None:
        """Begins the look that was asked for: at ``tests``, while ``ended`` attempts have ended.

        ``since_s`` is the start of the run on the monotonic clock.
        """
        self._asked = False
        running = f"{count(len(tests), 'test')} {'runs' if len(tests) == 1 else 'run'}"
        head = f"-- {clock_text(monotonic() - since_s)}: {running}, {count(ended, 'attempt')} ended"
        self._thread = threading.Thread(target=self._look, args=(head, tests), name="look", daemon=True)
        self._thread.start()

    def answers(self) -> list[str]:
        """The lines of the looks that are ready."""
        lines: list[str] = []
        while not self._answers.empty():
            lines += self._answers.get()
        return lines

    def _look(self, head: str, tests: Sequence[SeenTest]) -> None:
        from harness.look.report import taken  # imported where somebody asks, which few do

        try:
            lines = taken(os.getpid(), tests)
        except HarnessError as error:
            lines = [str(error)]
        except OSError as error:  # /proc is not what it should be; the run itself goes on
            lines = [f"no look: {error}"]
        self._answers.put([head, *lines])
        self._wake()

    def _take(self, number: int, frame: types.FrameType | None) -> None:
        self._asked = True
        self._wake()

    def _wake(self) -> None:
        try:
            os.write(self._write, b"!")
        except BlockingIOError:  # it is full, so it wakes already
            return


def has_terminal(fd: int) -> bool:
    """Whether the descriptor is a terminal of which this process may read: it is in its foreground group."""
    try:
        return os.isatty(fd) and os.tcgetpgrp(fd) == os.getpgrp()
    except OSError:
        return False
