"""How many ranks a host takes before a test spans another one: one an accelerator, else one a processor."""

from __future__ import annotations

import os

from harness.requirements import probe
from harness.system import processors

# What a process can say by its exit code; no host has more accelerators.
_MOST = 255


def default_slots() -> int:
    """The accelerators that ranks on this host can use; its processors where there are none."""
    return _accelerators() or processors.available()


def _accelerators() -> int:
    """Counted in a fork, which ends with the count: a driver that has been asked survives no further fork."""
    pid = os.fork()
    if pid == 0:
        count = 0
        try:
            count = min(probe().countable_devices(), _MOST)
        finally:
            os._exit(count)
    return max(0, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
