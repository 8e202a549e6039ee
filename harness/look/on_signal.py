"""``shown_on_signal``: SIGUSR1 prints where the ranks of this process are, which runs no test itself."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import types
from collections.abc import Iterator
from time import monotonic

from harness.look.report import SeenTest, taken

# A process of tests gets no handler of it: tests have handlers of their own, and a signal ends system calls.
SIGNAL = signal.SIGUSR1


@contextlib.contextmanager
def shown_on_signal(name: str) -> Iterator[None]:
    """Prints a look at this process's ranks on standard error at each signal, while the context lasts.

    ``name`` is what they run. It is printed by a thread, so that who watches the ranks goes on watching.
    """
    test = SeenTest(name, os.getpid(), monotonic())

    def look(number: int, frame: types.FrameType | None) -> None:
        threading.Thread(target=_print, args=(test,), name="look", daemon=True).start()

    before = signal.signal(SIGNAL, look)
    try:
        yield
    finally:
        signal.signal(SIGNAL, before)


def _print(test: SeenTest) -> None:
    try:
        lines = taken(os.getpid(), [test])
    except OSError as error:
        lines = [f"no look: {error}"]
    with contextlib.suppress(OSError):  # standard error is closed
        print("\n".join(lines), file=sys.stderr, flush=True)
