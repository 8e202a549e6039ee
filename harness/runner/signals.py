"""The signal by which the controller asks a worker, or a zygote that hangs in an import, for its stacks."""

from __future__ import annotations

import signal
import sys

# A real-time signal: tests use SIGUSR1 and SIGUSR2 themselves. The one below that of the ranks
# (harness/system/signals.py): a rank inherits the worker's disposition and sets its own beside it.
STACK_SIGNAL = int(signal.SIGRTMAX) - 2 if sys.platform == "linux" else int(signal.SIGUSR1)
