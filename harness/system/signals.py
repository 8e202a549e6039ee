"""The signals that the harness sends: for a rank's stacks, and to end a test in a process that lives on."""

from __future__ import annotations

import signal
import sys

# A real-time signal: tests use SIGUSR1 and SIGUSR2 themselves. One below the last, which valgrind keeps.
STACK_SIGNAL = int(signal.SIGRTMAX) - 1 if sys.platform == "linux" else int(signal.SIGUSR2)
# Sent by a process to itself.
STOP_SIGNAL = STACK_SIGNAL - 1 if sys.platform == "linux" else int(signal.SIGUSR1)
