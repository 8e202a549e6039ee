"""Chooses the number of each signal that the harness sends, and undoes what a process inherits (``settle``).

They are real-time signals, because tests use SIGUSR1 and SIGUSR2 themselves; valgrind uses the last one. A
rank inherits the handler of its worker's signal and sets its own signal's beside it, so the two must differ.
On systems other than Linux, where ranks are never processes, they are the user signals.
"""

from __future__ import annotations

import signal
import sys

if sys.platform == "linux":
    # Makes a rank process dump the stacks of its threads.
    RANK_STACKS = int(signal.SIGRTMAX) - 1
    # Makes a worker, or a zygote whose import hangs, dump the stacks of its threads.
    WORKER_STACKS = int(signal.SIGRTMAX) - 2
    # Sent by a process to itself: ends the test that runs in it, but not the process.
    STOP_TEST = int(signal.SIGRTMAX) - 3
else:
    RANK_STACKS = STOP_TEST = int(signal.SIGUSR2)
    WORKER_STACKS = int(signal.SIGUSR1)


def settle() -> None:
    """Unblocks all signals and makes SIGCHLD its default again, in a server that waits for its children.

    A process inherits what its parent blocked or ignored, from a new program on too, and a test module may
    set the same when a server imports it. The exit codes of children are lost where SIGCHLD is ignored, or
    where its handler reaps them.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
