"""What cases leave over: processes that carry a mark in their environment, files, descriptors, threads."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass
from pathlib import Path

# The variable that marks every process of a batch of cases, and of no other.
MARK = "FUZZ_MARK"
# What torch keeps in the temporary directory from process to process.
CACHES = "torchinductor_"
# Seconds for processes that are told to end to be gone.
GONE_S = 10.0


def marked(mark: str) -> dict[int, str]:
    """The processes other than this one that carry the mark, zombies left out: pid and command line."""
    wanted = f"{MARK}={mark}".encode()
    found = {}
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            if wanted in (entry / "environ").read_bytes().split(b"\0"):
                command = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                found[int(entry.name)] = command.strip()[:80]
        except OSError:
            continue  # it is gone, or somebody else's
    return found


def more_than(mark: str, most: int, patience: float) -> dict[int, str]:
    """The marked processes where there are more than ``most``, after some seconds to end; else none."""
    until = time.monotonic() + GONE_S * patience
    while len(found := marked(mark)) > most:
        if time.monotonic() >= until:
            return found
        time.sleep(0.05)
    return {}


def end_all(mark: str) -> None:
    """Kills every process that carries the mark, and waits until they are gone."""
    until = time.monotonic() + GONE_S
    while (found := marked(mark)) and time.monotonic() < until:
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class Held:
    """What this process holds: its open descriptors by target, and its threads."""

    descriptors: tuple[str, ...]
    threads: tuple[str, ...]

    @classmethod
    def now(cls) -> Held:
        """What this process holds now."""
        targets = []
        for entry in os.listdir("/proc/self/fd"):
            try:
                targets.append(os.readlink(f"/proc/self/fd/{entry}"))
            except OSError:
                continue  # the descriptor of the listing itself
        return cls(tuple(sorted(targets)), tuple(sorted(t.name for t in threading.enumerate())))

    def grown(self, threads_allowed: int) -> list[str]:
        """A line for what this process holds more than at that time; so many further threads are fine.

        A thread that nobody can end keeps its descriptors, so these are counted only where none was left.
        """
        now = Held.now()
        lines = []
        if len(now.descriptors) > len(self.descriptors) and len(now.threads) <= len(self.threads):
            new = _added(self.descriptors, now.descriptors)
            lines.append(f"{len(now.descriptors) - len(self.descriptors)} descriptors more: {', '.join(new)}")
        if len(now.threads) > len(self.threads) + threads_allowed:
            lines.append(f"threads more: {', '.join(_added(self.threads, now.threads))}")
        return lines


def _added(before: tuple[str, ...], after: tuple[str, ...]) -> list[str]:
    known = list(before)
    added = []
    for each in after:
        if each in known:
            known.remove(each)
        else:
            added.append(each)
    return added[:8]


def files_below(directory: str | os.PathLike[str]) -> list[str]:
    """The files and directories below a directory that are not torch's own caches, by relative path."""
    root = Path(directory)
    found = (str(path.relative_to(root)) for path in root.rglob("*"))
    return sorted(name for name in found if not name.startswith(CACHES))
