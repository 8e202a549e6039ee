"""The table of signals that the harness sends: each purpose has a number of its own.

Real-time signals, because tests use SIGUSR1 and SIGUSR2 themselves; the last one is left to valgrind. A rank
inherits what its worker has set for the worker's signal and sets its own beside it, so the two must differ.
Outside of Linux, where ranks are never processes, the numbers are those of the user signals.
"""

from __future__ import annotations

import signal
import sys

if sys.platform == "linux":
    # Asks a rank that is a process for the stacks of its threads.
    RANK_STACKS = int(signal.SIGRTMAX) - 1
    # Asks a worker, or a zygote whose import hangs, for the stacks of its threads.
    WORKER_STACKS = int(signal.SIGRTMAX) - 2
    # Sent by a process to itself: ends the test that runs in it, and lets the process live on.
    STOP_TEST = int(signal.SIGRTMAX) - 3
else:
    RANK_STACKS = STOP_TEST = int(signal.SIGUSR2)
    WORKER_STACKS = int(signal.SIGUSR1)
