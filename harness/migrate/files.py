"""Reads and writes the files of a migration: which ones, and how one is replaced in one step."""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

from harness.errors import UsageError

# Directories in which no tests of the user's are.
_SKIPPED = frozenset({"__pycache__", "node_modules", "site-packages"})


def python_files(paths: Iterable[str]) -> Iterator[Path]:
    """The Python files that paths name, each once: files themselves, and those below a directory.

    Hidden directories are left out. UsageError for a path that does not exist.
    """
    found: dict[Path, None] = {}
    for each in map(Path, paths):
        if not each.exists():
            raise UsageError(f"{each} does not exist: name files or directories")
        found.update(dict.fromkeys(_below(each) if each.is_dir() else (each,)))
    yield from found


def _below(directory: Path) -> Iterator[Path]:
    for where, directories, files in os.walk(directory):
        directories[:] = sorted(d for d in directories if d not in _SKIPPED and not d.startswith("."))
        yield from (Path(where, name) for name in sorted(files) if name.endswith(".py"))


def replace_file(path: Path, content: bytes) -> None:
    """Writes a file in one step, with its mode: a reader sees the old content or the new one.

    A link stays a link: what it points to is replaced. OSError where that is impossible; the file is then as
    it was.
    """
    target = os.path.realpath(path)
    mode = stat.S_IMODE(os.stat(target).st_mode)
    if not os.access(target, os.W_OK):
        raise PermissionError(f"{path} cannot be written")
    fd, temporary = tempfile.mkstemp(prefix=".migrate-", dir=os.path.dirname(target))
    try:
        with open(fd, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, mode)
        os.replace(temporary, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
