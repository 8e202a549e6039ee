"""Ends this process where nobody in it can run Python any more: a test holds the interpreter's lock for ever.

The listener of such a process can neither hear nor end the test, and a launcher that waits for all ranks, as
srun does, would wait for ever. ``faulthandler`` has a thread that needs no lock: it writes the stacks of all
threads to standard error, and ends the process with exit code 1. A process has one such thread.
"""

from __future__ import annotations

import faulthandler
import math

# Seconds that a listener which is due to act has to get its turn, before it counts as one that will get none.
# It asks for the interpreter's lock, and gets it after 5 ms from any test that runs Python.
TURN_S = 5.0


def arm(seconds: float) -> None:
    """Ends the process unless somebody arms or disarms this within so many seconds and ``TURN_S``.

    Without an end for infinity, in a debugger.
    """
    if not math.isinf(seconds):
        faulthandler.dump_traceback_later(seconds + TURN_S, exit=True, file=2)


def disarm() -> None:
    """Lets the process live."""
    faulthandler.cancel_dump_traceback_later()
