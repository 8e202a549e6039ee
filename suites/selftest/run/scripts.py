"""``ScriptCase``: writes ordinary scripts and runs them by ``python -m harness.run``."""

from __future__ import annotations

import subprocess
import sys
import textwrap
import unittest
from dataclasses import dataclass
from pathlib import Path

from suites.selftest import warm_python
from suites.selftest.runner import runs
from suites.selftest.runner.runs import PATIENCE_S

TREE = runs.RUN_TESTS.parent


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is over: its exit code, what ranks printed, and what the command said."""

    code: int
    out: str
    err: str

    def of_rank(self, rank: int) -> list[str]:
        """Returns the lines of one rank."""
        prefix = f"[rank {rank}] "
        return [line.removeprefix(prefix) for line in self.out.splitlines() if line.startswith(prefix)]


class ScriptCase(unittest.TestCase):
    """Base class of tests with a directory of their own, scripts in it, and runs of them."""

    directory: Path

    def setUp(self) -> None:
        """Makes the directory of the test."""
        self.directory = runs.new_directory(self)

    def write(self, name: str, body: str) -> Path:
        """Writes a file, in folders that are made."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(body), encoding="utf-8")
        return path

    def start(self, *argv: str, **variables: str) -> subprocess.Popen[str]:
        """Starts a run, which is killed if the test leaves it."""
        process = subprocess.Popen(
            [sys.executable, "-m", "harness.run", *argv],
            cwd=self.directory,
            env=runs.environ(self.directory, PYTHONPATH=str(TREE), **variables),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.addCleanup(_close, process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> Finished:
        """Waits for the end of a run."""
        out, err = process.communicate(timeout=PATIENCE_S)
        return Finished(process.returncode, out, err)

    def play(self, *argv: str, **variables: str) -> Finished:
        """Runs to the end in the test's directory, as forks of an interpreter that has torch."""
        done = warm_python.run(
            ("-m", "harness.run", *argv),
            cwd=self.directory,
            env=runs.environ(self.directory, PYTHONPATH=str(TREE), **variables),
            timeout=PATIENCE_S,
            merged=False,
        )
        return Finished(done.returncode, done.stdout, done.stderr)


def _close(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    for stream in (process.stdout, process.stderr):
        if stream is not None:
            stream.close()
