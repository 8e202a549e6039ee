"""``within``: ends what takes more processor time than it may, in Python code of this process's main thread.

A program of a fuzzer that runs on ranks of processes is ended by the deadline of its test. One that a process
runs beside others, playing all ranks itself, would take them along.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class NeverEnds(Exception):
    """What was run took more processor time than it may."""


class _Interruption(BaseException):
    """Raised in the midst of it: no ``except Exception`` there takes it for an error of its own."""


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Raises ``NeverEnds`` in the block once this process has spent that much processor time in it.

    A busy machine changes nothing. What does not return to Python is not ended, nor is anything in another
    thread than the main one, where Python runs no handlers of signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise _Interruption

    before = signal.signal(signal.SIGPROF, end)
    signal.setitimer(signal.ITIMER_PROF, seconds, 1)  # again each second, should somebody catch the first
    try:
        yield
    except _Interruption as error:
        raise NeverEnds(f"timed out after {seconds:g} s of processor time") from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
