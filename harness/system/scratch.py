"""``scratch()``: the process's private directory of temporary files, made when needed and removed at exit.

It is one directory per process, because making and removing one per test takes longer than a pooled test.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import tempfile
from collections.abc import Iterator

from harness.errors import UsageError
from harness.system.closing import on_close
from harness.system.per_process import PerProcess

# Set by chmod as well, because a umask may take away the owner's own rights.
_DIRECTORY_MODE = 0o700
_FILE_MODE = 0o600


class Scratch:
    """Owns the directory; ``close`` removes it with its contents.

    UsageError where no temporary directory can be used.
    """

    def __init__(self) -> None:
        self.path = _new_directory()
        self._numbers = itertools.count()

    def new_file(self, stem: str) -> str:
        """Makes an empty file and returns its path; OSError where that is impossible."""
        path = os.path.join(self.path, f"{stem}-{next(self._numbers)}")
        fd = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, _FILE_MODE)
        os.fchmod(fd, _FILE_MODE)
        os.close(fd)
        return path

    def new_directory(self, stem: str) -> str:
        """Makes an empty directory and returns its path; OSError where that is impossible."""
        path = os.path.join(self.path, f"{stem}-{next(self._numbers)}")
        os.mkdir(path)
        os.chmod(path, _DIRECTORY_MODE)
        return path

    def ready(self) -> None:
        """Makes a new directory where the old one was removed."""
        if not os.path.isdir(self.path):
            self.path = _new_directory()

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


@contextlib.contextmanager
def advised() -> Iterator[None]:
    """Turns an error of making temporary files into a UsageError that says what to do."""
    try:
        yield
    except OSError as error:
        raise UsageError(f"no temporary file: {error}: set TMPDIR to another directory") from error


def _new_directory() -> str:
    with advised():
        path = tempfile.mkdtemp(prefix="harness-")
    os.chmod(path, _DIRECTORY_MODE)
    try:
        path.encode()
    except UnicodeEncodeError:
        os.rmdir(path)
        raise UsageError(
            f"{path!a} is not UTF-8, which torch's FileStore cannot open: set TMPDIR to another directory"
        ) from None
    return path


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
