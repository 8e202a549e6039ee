"""Says, before ranks are launched, whether the limits of descriptors and processes have room for them."""

from __future__ import annotations

import os
import resource

from harness.system import control_group

# Descriptors that this process opens for a launch, and for each of its ranks: both ends of a channel and of
# two pipes, and a log twice.
_SHARED, _EACH = 2, 8
# Ranks up to which nobody counts processes: a machine that has no room for these few says so soon enough, and
# counting takes milliseconds.
FEW = 32


def why_no_descriptors(ranks: int, error: OSError) -> str:
    """What to tell a user where descriptors could not be opened."""
    needed, (soft, hard) = _SHARED + _EACH * ranks, resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = f"raise it (ulimit -n, at most {hard})" if hard >= 0 else "raise it (ulimit -n)"
    return f"no descriptors for {ranks} ranks: {error}; they take {needed}, and the limit is {soft}: {raised}"


def why_no_processes(ranks: int) -> str:
    """Why so many more processes cannot be started by this user; "" where they can, or are few."""
    if ranks <= FEW:
        return ""
    limits = (
        (control_group.processes_left(), "pids.max of the control group"),
        (_left_of_user(), "ulimit -u"),
    )
    for left, how in limits:
        if left is not None and left < ranks:
            return f"{ranks} ranks are as many processes, and there is room for {left} more: raise {how}"
    return ""


def _left_of_user() -> int | None:
    """How many threads and processes this user may still have; None where there is no limit, or no psutil."""
    limit, user = resource.getrlimit(resource.RLIMIT_NPROC)[0], os.getuid()
    if limit < 0 or user == 0:
        return None
    try:
        import psutil  # by few launches only
    except ImportError:  # this only says beforehand what the launch says otherwise
        return None
    own = (p.info for p in psutil.process_iter(["uids", "num_threads"]) if p.info["uids"] is not None)
    return max(0, limit - sum(info["num_threads"] or 1 for info in own if info["uids"].real == user))
