"""Temporary files of the parent: one private directory a process, made when first needed, removed at its end.

One directory, because making and removing one for each test costs more than a pooled test does.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile

from harness.launch import select


class Scratch:
    """Owns the directory; ``close`` removes it with everything in it."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="harness-")
        self._numbers = itertools.count()

    def new_file(self, stem: str) -> str:
        """The path of a new empty file."""
        path = os.path.join(self.path, f"{stem}-{next(self._numbers)}")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return path

    def close(self) -> None:
        """Removes the directory."""
        shutil.rmtree(self.path, ignore_errors=True)


# By process id: a fork of this process must neither use nor remove its parent's directory.
_kept: dict[int, Scratch] = {}


def scratch() -> Scratch:
    """This process's directory, made anew where somebody has removed it."""
    pid = os.getpid()
    kept = _kept.get(pid)
    if kept is None or not os.path.isdir(kept.path):
        if kept is None:
            select.on_close(close)
        _kept.clear()
        kept = _kept[pid] = Scratch()
    return kept


def close() -> None:
    """Removes this process's directory, if it has one."""
    kept = _kept.pop(os.getpid(), None)
    if kept is not None:
        kept.close()
