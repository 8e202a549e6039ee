"""Says, before ranks are launched, whether the limits of descriptors and processes have room for them."""

from __future__ import annotations

import contextlib
import os
import resource
from pathlib import Path

# Descriptors that this process opens for a launch, and for each of its ranks: both ends of a channel and of
# two pipes, and a log twice.
_SHARED, _EACH = 2, 8
# Ranks up to which nobody counts processes: a machine that has no room for these few says so soon enough, and
# counting takes milliseconds.
FEW = 32
_CGROUP = Path("/sys/fs/cgroup")


def why_no_descriptors(ranks: int, error: OSError) -> str:
    """What to tell a user where descriptors could not be opened."""
    needed, (soft, hard) = _SHARED + _EACH * ranks, resource.getrlimit(resource.RLIMIT_NOFILE)
    raised = f"raise it (ulimit -n, at most {hard})" if hard >= 0 else "raise it (ulimit -n)"
    return f"no descriptors for {ranks} ranks: {error}; they take {needed}, and the limit is {soft}: {raised}"


def why_no_processes(ranks: int, cgroup: Path = _CGROUP) -> str:
    """Why so many more processes cannot be started by this user; "" where they can, or are few.

    ``cgroup`` is the directory of the control group that counts processes.
    """
    if ranks <= FEW:
        return ""
    for left, how in ((_left_in(cgroup), "pids.max of the control group"), (_left_of_user(), "ulimit -u")):
        if left is not None and left < ranks:
            return f"{ranks} ranks are as many processes, and there is room for {left} more: raise {how}"
    return ""


def _left_in(cgroup: Path) -> int | None:
    """How many processes the control group may still have; None where it has no limit, or tells none."""
    with contextlib.suppress(OSError, ValueError):
        most, now = (
            (cgroup / name).read_text(encoding="ascii").strip() for name in ("pids.max", "pids.current")
        )
        return max(0, int(most) - int(now))  # "max" is no number: there is no limit
    return None


def _left_of_user() -> int | None:
    """How many threads and processes this user may still have; None where no limit holds."""
    import psutil  # by few launches only

    limit, user = resource.getrlimit(resource.RLIMIT_NPROC)[0], os.getuid()
    if limit < 0 or user == 0:
        return None
    own = (p.info for p in psutil.process_iter(["uids", "num_threads"]) if p.info["uids"] is not None)
    return max(0, limit - sum(info["num_threads"] or 1 for info in own if info["uids"].real == user))
