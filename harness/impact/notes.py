"""``Notes``: what each test executes, as processes note it in files of a directory.

A process has a file of its own, and an entry in it is written as it happens: nothing is lost with a process
that is killed. ``@<test>`` says whose the entries behind it are; the name is empty outside of tests.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from pathlib import Path


class Notes:
    """Writes entries, each once for a test and process."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Begins anew in this process, whose parent has another file."""
        self._lock = threading.RLock()  # ranks may be threads, and a signal's handler may come in between
        self._seen: dict[bytes, set[bytes]] = {}
        self._last: bytes | None = None
        self._file = ""

    def knows(self, test: bytes) -> bool:
        """Whether this process has an entry of the test."""
        return test in self._seen

    def add(self, test: bytes, *entries: bytes) -> None:
        """Writes those entries that the test does not have yet."""
        seen = self._seen.get(test, ())
        new = [entry for entry in entries if entry not in seen]
        if not new:
            return
        with self._lock:
            self._seen.setdefault(test, set()).update(new)
            lines = new if test == self._last else [b"@" + test, *new]
            self._last = test
            # Process ids come again.
            self._file = self._file or str(self._directory / f"{os.getpid()}-{time.time_ns()}")
            # Opened each time: a test may count its process's descriptors, or close them.
            fd = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o666)
            try:
                os.write(fd, b"".join(line + b"\n" for line in lines))
            finally:
                os.close(fd)


def read(directory: Path) -> Iterator[tuple[str, str]]:
    """All entries of all processes, each with its test."""
    for file in directory.glob("[0-9]*-*"):
        test = ""
        for line in file.read_bytes().decode(errors="surrogateescape").splitlines():
            if line.startswith("@"):
                test = line[1:]
            else:
                yield test, line
