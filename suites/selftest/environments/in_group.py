"""Runs a command in a control group of its own, below that of this process, and removes the group.

    python in_group.py CONTROLLER LIMIT COMMAND...

A program of its own, because who enters a group cannot remove it.
"""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

if __package__ in (None, ""):  # started by its path: the tree is not on sys.path then
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))

from harness.system import control_group, posix

# The files that take the limit, of version 2 and of version 1.
LIMITS = {"memory": ("memory.max", "memory.limit_in_bytes"), "pids": ("pids.max",)}


@contextmanager
def new_group(controller: str, limit: str) -> Iterator[Path]:
    """Makes a group with a limit; OSError where this process may not, or where there are no groups."""
    own = next(
        (each for each in control_group.directories(controller) if (each / "cgroup.procs").exists()), None
    )
    if own is None:
        raise FileNotFoundError(f"no control group of {controller}")
    group = own / f"torch-harness-selftest-{os.getpid()}"
    group.mkdir()
    try:
        if not (group / LIMITS[controller][-1]).exists() and not (group / LIMITS[controller][0]).exists():
            (own / "cgroup.subtree_control").write_text(f"+{controller}")
        next(file for name in LIMITS[controller] if (file := group / name).exists()).write_text(limit)
        yield group
    finally:
        group.rmdir()


def main() -> int:
    """Runs the command and returns its exit code once every process of the group has ended."""
    controller, limit, *command = sys.argv[1:]
    posix.adopt_orphans()
    with new_group(controller, limit) as group:
        members = group / "cgroup.procs"
        enter = functools.partial(members.write_text, "0")
        code = subprocess.run(command, check=False, close_fds=False, preexec_fn=enter).returncode
        _reap()
    return code


def _reap() -> None:
    """Waits for what the command left: a group with a process cannot be removed."""
    while True:
        try:
            os.wait()
        except ChildProcessError:
            return


if __name__ == "__main__":
    raise SystemExit(main())
