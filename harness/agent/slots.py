"""How many accelerators a host has for ranks: it takes one rank an accelerator, else one a processor."""

from __future__ import annotations

import os

from harness.requirements import probe

# What a process can say by its exit code; no host has more accelerators.
_MOST = 255


def count_accelerators() -> int:
    """The accelerators that ranks on this host can use.

    They are counted in a fork, which ends with the count: a driver that has been asked survives no further
    fork.
    """
    pid = os.fork()
    if pid == 0:
        count = 0
        try:
            count = min(probe().countable_devices(), _MOST)
        finally:
            os._exit(count)
    return max(0, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
