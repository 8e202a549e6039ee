"""``Notes``: what each test executes, as processes note it in files of a directory.

A process has a file of its own, and an entry in it is written as it happens: nothing is lost with a process
that is killed. ``@<test>`` says whose the entries behind it are.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path


class Notes:
    """Writes entries, each once for a test and process. Takes no lock: its callers may be anywhere."""

    def __init__(self, directory: Path) -> None:
        self._directory = str(directory)
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Begins anew in this process, whose parent has another file."""
        self._seen: dict[bytes, set[bytes]] = {}
        self._last: bytes | None = None
        self._file = f"{self._directory}/{os.getpid()}-{time.time_ns()}"  # process ids come again

    def add(self, test: bytes, entry: bytes) -> None:
        """Writes an entry that the test does not have yet."""
        seen = self._seen.setdefault(test, set())
        if entry in seen:
            return
        seen.add(entry)
        line = entry + b"\n" if test == self._last else b"@%b\n%b\n" % (test, entry)
        # Opened each time: a test may count its process's descriptors, or close them.
        fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            os.write(fd, line)
        finally:
            os.close(fd)
        self._last = test  # after the write: ranks may be threads, and the first one's line comes first


def read(directory: Path) -> Iterator[tuple[str, str]]:
    """All entries of all processes, each with its test."""
    for file in directory.glob("[0-9]*-*"):
        test = ""
        for line in file.read_bytes().decode(errors="surrogateescape").splitlines():
            if line.startswith("@"):
                test = line[1:]
            else:
                yield test, line
