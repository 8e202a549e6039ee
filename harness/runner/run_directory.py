"""Where runs write their files, how many earlier runs are kept, and which run was the last.

.harness/                      HARNESS_STATE_DIR, in the working directory unless set
    cache/tests-<key>.json     the cache of known tests
    timings.json               how long tests took here, for the order of the next run
    impact.json.gz             which files tests execute, by --record-map
    latest                     the path of the last run's directory
    runs/<date>-<pid>/         journal, reports, logs of a run that named no --report-dir
"""

from __future__ import annotations

import contextlib
import os
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.errors import UsageError
from harness.impact import impact_map
from harness.runner import journal
from harness.runner.command_line import bazel
from harness.settings import STATE_DIRECTORY, EnvVar

# Number of finished runs whose directories are kept. Directories that --report-dir named are never removed.
KEPT_RUNS = 20
# Where a run's directory has the logs of ranks.
LOGS = "logs"


@dataclass(frozen=True, slots=True)
class StateDirectory:
    """The state directory; it need not exist, and need not be writable."""

    path: Path

    @property
    def cache(self) -> Path:
        """The directory of discovery's cache."""
        return self.path / "cache"

    @property
    def timings(self) -> Path:
        """The file with the times of tests in earlier runs here."""
        return self.path / "timings.json"

    @property
    def impact_map(self) -> Path:
        """The file with the files that tests execute."""
        return self.path / impact_map.NAME

    def latest(self) -> Path | None:
        """The directory of the last run; None where it is unknown or has been removed."""
        with contextlib.suppress(OSError):
            directory = Path(os.fsdecode((self.path / "latest").read_bytes().removesuffix(b"\n")))
            return directory if directory.is_dir() else None
        return None

    def remember(self, directory: Path) -> None:
        """Notes the last run's directory, for ``--resume`` and ``--last-failed``. An OSError is ignored."""
        with contextlib.suppress(OSError):
            self._prepare()
            (self.path / "latest").write_bytes(os.fsencode(directory.resolve()) + b"\n")

    def new_run(self, now: float) -> Path:
        """Makes a directory for a run and removes the oldest ones; OSError where it cannot be made."""
        self._prepare()
        name = time.strftime("%Y-%m-%dT%H-%M-%S", time.localtime(now)) + f"-{os.getpid()}"
        runs = self.path / "runs"
        # This process may have begun a run on another target in the same second.
        names = (name, *(f"{name}-{number}" for number in range(2, KEPT_RUNS)))
        directory = next((each for each in map(runs.joinpath, names) if not each.exists()), runs / name)
        directory.mkdir(parents=True)
        self._prune(directory)
        return directory

    def _prepare(self) -> None:
        self.path.mkdir(parents=True, exist_ok=True)
        ignore = self.path / ".gitignore"
        if not ignore.exists():
            ignore.write_text("*\n", encoding="utf-8")

    def _prune(self, newest: Path) -> None:
        runs = sorted(d for d in newest.parent.iterdir() if d.is_dir() and d != newest)
        for old in runs[: max(0, len(runs) - KEPT_RUNS + 1)]:
            with journal.idle(old) as idle:
                if idle:
                    shutil.rmtree(old, ignore_errors=True)


def state(environ: Mapping[str, str], cwd: Path) -> StateDirectory:
    """The state directory that the environment names, else ``.harness`` in the working directory.

    Under Bazel it is in the only directory that a test may write to.
    """
    base = cwd / (bazel.temporary_directory(environ) or "")
    return StateDirectory(base / (environ.get(EnvVar.STATE_DIR) or STATE_DIRECTORY))


def check_writable(directory: Path, name: str = "--report-dir") -> None:
    """Makes a directory, before the first test; UsageError, with its name, where it cannot be written."""
    probe = directory / f".probe-{os.getpid()}"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UsageError(f"{name} {directory} cannot be written: {error.strerror}") from None
