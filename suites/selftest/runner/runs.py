"""Runs ``run_tests.py`` over modules that a test writes, for the tests beside this file."""

from __future__ import annotations

import json
import os
import sys
import tempfile
import textwrap
import unittest
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from harness.record import TestRecord, from_json
from harness.runner.selection.shard_variables import without_shard
from harness.variables import VERDICT_VARIABLES
from suites.selftest import warm_python

RUN_TESTS = Path(__file__).resolve().parents[3] / "run_tests.py"
# Seconds after which a run that should have taken one counts as hanging, on a machine that is busy too.
PATIENCE_S = 300.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that is over: its exit code, what it printed, and the records in its journal."""

    code: int
    out: str
    err: str
    records: tuple[TestRecord, ...]

    def of(self, name: str) -> TestRecord:
        """Returns the last record of the test whose id ends with ``name``; raises LookupError if there is
        none.
        """
        found = [r for r in self.records if r.id.endswith(name)]
        if not found:
            raise LookupError(f"no record of {name}; the run said:\n{self.out}{self.err}")
        return found[-1]

    @property
    def statuses(self) -> dict[str, str]:
        """Returns the status of each test's last record, by method name."""
        return {r.id.rsplit(".", 1)[-1]: r.status.value for r in self.records}


class RunnerCase(unittest.TestCase):
    """Base class of tests with a directory of their own, modules in it, and runs over them.

    ``imports`` are what these modules import that takes long: runs are forks of an interpreter that has them.
    """

    imports: ClassVar[Sequence[str]] = ()
    directory: Path

    def setUp(self) -> None:
        """Makes the directory of the test."""
        self.directory = new_directory(self)

    def write(self, name: str, body: str) -> None:
        """Writes a test module, which imports ``unittest`` and what tests use to misbehave."""
        write_module(self.directory, name, body)

    def command(self, *argv: str) -> list[str]:
        """Returns the command line of a run."""
        return command(*argv)

    def environ(self, **variables: str) -> dict[str, str]:
        """Returns the environment of a run."""
        return environ(self.directory, **variables)

    def run_tests(self, *argv: str, **variables: str) -> Finished:
        """Runs to the end in the test's directory."""
        return run_tests(self.directory, *argv, imports=self.imports, **variables)


def new_directory(test: unittest.TestCase | type[unittest.TestCase]) -> Path:
    """Makes a directory that is removed when the test, or the class, is over."""
    temporary = tempfile.TemporaryDirectory(prefix="harness-selftest-")
    cleanup = test.addClassCleanup if isinstance(test, type) else test.addCleanup
    cleanup(temporary.cleanup)
    return Path(temporary.name).resolve()


def write_module(directory: Path, name: str, body: str) -> None:
    """Writes ``name.py`` with the imports that bodies take for granted."""
    header = "import ctypes, os, signal, subprocess, sys, threading, time, unittest\n"
    (directory / f"{name}.py").write_text(header + textwrap.dedent(body), encoding="utf-8")


def command(*argv: str) -> list[str]:
    """Returns the command line of a run."""
    return [sys.executable, str(RUN_TESTS), *argv]


def environ(directory: Path, **variables: str) -> dict[str, str]:
    """Returns an environment in which a run does not see the run that tests it."""
    own = {k for k in os.environ if k in VERDICT_VARIABLES or k.startswith(("HARNESS_", "GITHUB_"))}
    inherited = {k: v for k, v in os.environ.items() if k not in own}
    return {**without_shard(inherited), "HARNESS_STATE_DIR": str(directory / ".harness"), **variables}


def run_tests(directory: Path, *argv: str, imports: Sequence[str] = (), **variables: str) -> Finished:
    """Runs to the end in a directory, by forks of an interpreter that has imported what runs import.

    Tests of how a run starts start a ``command``.
    """
    _, *arguments = command(*argv)
    env = environ(directory, **variables)
    done = warm_python.run_runner(arguments, cwd=directory, env=env, timeout=PATIENCE_S, imports=imports)
    return Finished(done.returncode, done.stdout, done.stderr or "", tuple(journal_records(directory)))


def journal_path(directory: Path) -> Path | None:
    """Returns the journal of the last run that was started in a directory."""
    latest = directory / ".harness" / "latest"
    return Path(latest.read_text().strip()) / "journal.jsonl" if latest.exists() else None


def journal_lines(directory: Path) -> Iterator[Mapping[str, Any]]:
    """Yields the whole lines of the last run's journal."""
    path = journal_path(directory)
    for line in path.read_bytes().splitlines() if path is not None and path.is_file() else []:
        try:
            yield json.loads(line)
        except (ValueError, RecursionError):
            continue


def journal_records(directory: Path) -> Iterator[TestRecord]:
    """Yields the test records in the last run's journal."""
    return (from_json(line) for line in journal_lines(directory) if line["kind"] == "test")
