"""What was run in the environments of the matrix, read from the journals of their runs, and its table."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report.summary import Summary
from harness.runner import journal
from harness.runner.journal import EarlierRun
from tools.matrix.interpreters import numbers
from tools.simple_table import Table

SELFTEST = "selftest"
_NOT_MADE = "not-made.txt"
_REVISION = "revision.txt"
UNKNOWN = "unknown"
_PAIR = re.compile(r"python-([\d.]+)-torch-([\d.]+)")


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of a pair: its releases, its runs from first to last, or why it has no environment.

    ``revisions`` are those of the tree that the runs are of, in the same order.
    """

    python: str
    torch: str
    runs: tuple[EarlierRun, ...] = ()
    revisions: tuple[str, ...] = ()
    not_made: str = ""

    @property
    def verdicts(self) -> Mapping[str, TestRecord]:
        """The last verdict on each test in the last run that had one, by the test's id.

        A test that was ended because its run was stopped has none.
        """
        attempts = (test for run in self.runs for test in Summary(run.records).tests)
        return {test.id: test.last for test in attempts if test.last.status is not Status.ENDED}


def new_run(runs: Path, pair: str) -> Path:
    """The folder for the next run of a pair, which does not exist yet."""
    return runs / pair / f"{len(list((runs / pair).glob('*/'))) + 1:03}"


def revision(tree: Path) -> str:
    """The commit of a tree, with a "+" where files of it have changed since; "unknown" without git."""
    command = ("git", "describe", "--always", "--abbrev=7", "--exclude=*", "--dirty=+")
    try:
        done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return UNKNOWN
    return done.stdout.strip()


def note_revision(run: Path, found: str) -> None:
    """Writes down of which revision of the tree a run is. The pair has an environment by now."""
    run.mkdir(parents=True, exist_ok=True)
    (run.parent / _NOT_MADE).unlink(missing_ok=True)
    (run / _REVISION).write_text(found, encoding="utf-8")


def forget(runs: Path, pair: str) -> None:
    """Removes what is known of a pair."""
    shutil.rmtree(runs / pair, ignore_errors=True)


def note_not_made(runs: Path, pair: str, reason: str) -> None:
    """Writes down why a pair has no environment, in place of what was known of it."""
    forget(runs, pair)
    (runs / pair).mkdir(parents=True)
    (runs / pair / _NOT_MADE).write_text(reason, encoding="utf-8")


def tried(runs: Path) -> list[Tried]:
    """All pairs that were tried, by Python and then by torch."""
    pairs = [(found, folder) for folder in runs.glob("*/") if (found := _PAIR.fullmatch(folder.name))]
    read = [_read(found[1], found[2], folder) for found, folder in pairs]
    return sorted(read, key=lambda one: (numbers(one.python), numbers(one.torch)))


def _read(python: str, torch: str, folder: Path) -> Tried:
    note = folder / _NOT_MADE
    if note.exists():
        return Tried(python, torch, not_made=note.read_text(encoding="utf-8"))
    folders = sorted(path.parent for path in folder.glob(f"*/{journal.NAME}"))
    notes = (run / _REVISION for run in folders)
    revisions = tuple(note.read_text(encoding="utf-8") if note.exists() else UNKNOWN for note in notes)
    return Tried(python, torch, tuple(map(journal.read, folders)), revisions)


def table(pairs: Sequence[Tried]) -> Table:
    """A row for each pair, with a column for the self-tests and one for each suite that any pair has run.

    A cell has the numbers of tests that passed, failed and were skipped. A pair without an environment has
    its reason there instead.
    """
    suites = {suite for pair in pairs for suite in counts(pair.verdicts)}
    columns = sorted(suites, key=lambda suite: (suite != SELFTEST, suite))
    return Table(
        ("Python", "torch", *(f"``{column}``" for column in columns), "run on", "revision"),
        tuple(_row(pair, columns) for pair in pairs),
    )


def _row(pair: Tried, columns: Sequence[str]) -> tuple[str, ...]:
    if not pair.runs:
        return (pair.python, pair.torch, pair.not_made or "not run", *("" for _ in columns), "")
    last = pair.runs[-1].info
    found = counts(pair.verdicts)
    cells = ("/".join(map(str, found[column])) if column in found else "-" for column in columns)
    day = time.strftime("%Y-%m-%d", time.gmtime(last.started_at))
    return (pair.python, last.torch or pair.torch, *cells, day, ", ".join(dict.fromkeys(pair.revisions)))


def counts(verdicts: Mapping[str, TestRecord]) -> dict[str, tuple[int, int, int]]:
    """The numbers of tests that passed, failed and were skipped, by suite."""
    found: dict[str, Counter[str]] = {}
    for test, record in verdicts.items():
        suite = test.removeprefix("suites.").partition(".")[0]
        how = "failed" if not record.ok else "skipped" if record.status is Status.SKIPPED else "passed"
        found.setdefault(suite, Counter())[how] += 1
    return {suite: (how["passed"], how["failed"], how["skipped"]) for suite, how in found.items()}


def failed(pair: Tried) -> list[TestRecord]:
    """The tests of a pair whose last verdict is that they failed, by their ids."""
    return sorted(
        (record for record in pair.verdicts.values() if not record.ok), key=lambda record: record.id
    )


def described(pair: Tried | None) -> str:
    """A line about what is known of a pair."""
    if pair is None:
        return "not run"
    if pair.not_made:
        return f"no environment: {pair.not_made}"
    found = counts(pair.verdicts)
    return ", ".join(f"{suite} {'/'.join(map(str, found[suite]))}" for suite in sorted(found))
