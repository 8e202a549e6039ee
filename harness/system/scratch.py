"""``scratch()``: the process's private directory of temporary files, made when needed and removed at exit.

It is one directory per process, because making and removing one per test takes longer than a pooled test.
"""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile

from harness.system.closing import on_close
from harness.system.per_process import PerProcess


class Scratch:
    """Owns the directory; ``close`` removes it with its contents."""

    def __init__(self) -> None:
        self.path = tempfile.mkdtemp(prefix="harness-")
        self._numbers = itertools.count()

    def new_file(self, stem: str) -> str:
        """Makes an empty file and returns its path; OSError where that is impossible."""
        path = os.path.join(self.path, f"{stem}-{next(self._numbers)}")
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        return path

    def ready(self) -> None:
        """Makes a new directory where the old one was removed."""
        if not os.path.isdir(self.path):
            self.path = tempfile.mkdtemp(prefix="harness-")

    def close(self) -> None:
        """Removes the directory."""
        shutil.rmtree(self.path, ignore_errors=True)


def remove(path: str) -> None:
    """Removes what a path in the directory names, which a rank may have put in the place of a file."""
    try:
        os.remove(path)
    except FileNotFoundError:
        return
    except IsADirectoryError:
        shutil.rmtree(path, ignore_errors=True)


def _begin() -> Scratch:
    made = Scratch()
    on_close(made.close)
    return made


_kept = PerProcess(_begin)


def scratch() -> Scratch:
    """This process's scratch directory, which exists."""
    kept = _kept.get()
    kept.ready()
    return kept
