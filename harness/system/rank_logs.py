"""The names of the files in which all that a rank prints is kept, and how an earlier run's are removed."""

from __future__ import annotations

import os
import re
from pathlib import Path

_NAME = re.compile(r".+\.rank[0-9]+\.log")


def log_file(directory: str | None, test_id: str, rank: int, attempt: str = "") -> Path | None:
    """The path of a rank's log file, whose directory is made; None where no directory is set.

    ``attempt`` tells a further attempt at the test from the first, whose logs it must not overwrite.
    """
    if not directory:
        return None
    os.makedirs(directory, exist_ok=True)
    name = "".join(c if c.isalnum() or c in "._-" else "_" for c in test_id)[-180:]
    return Path(directory) / f"{name}{attempt}.rank{rank}.log"


def remove_logs(directory: Path) -> None:
    """Removes the log files of ranks from a directory, which need not exist, and no other files."""
    for path in directory.glob("*.log"):
        if _NAME.fullmatch(path.name):
            path.unlink(missing_ok=True)
