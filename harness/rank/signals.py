"""The signal by which the supervisor asks a rank for its stacks."""

from __future__ import annotations

import signal
import sys

# A real-time signal: tests use SIGUSR1 and SIGUSR2 themselves. One below the last, which valgrind keeps.
STACK_SIGNAL = int(signal.SIGRTMAX) - 1 if sys.platform == "linux" else int(signal.SIGUSR2)
