"""``Row``, one odd environment and what has to become of a run in it, and the case that runs it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from harness import subtest
from suites.selftest import warm_python
from suites.selftest.pytest_plugin.runs import NOT_NEEDED, as_if_installed, without
from suites.selftest.runner import runs
from suites.selftest.runner.runs import PATIENCE_S, RUN_TESTS

HERE = Path(__file__).resolve().parent
TREE = str(RUN_TESTS.parent)
# What becomes of the sample's tests where all is as it should be.
RIGHT = {
    "Fresh.test_fails": "failed",
    "Fresh.test_passes": "passed",
    "Kept.test_first": "passed",
    "Kept.test_second": "passed",
}
# pytest without plugins that have no part in this and take long to import.
USUAL = without(*(name for name in NOT_NEEDED if name != "cacheprovider"))
# The last line of such a run.
COUNTS = "3 passed, 1 failed"


def nothing(directory: Path) -> None:
    """Leaves the directory as it is."""


def always() -> str:
    """Returns no reason to skip."""
    return ""


@dataclass(frozen=True, slots=True)
class Row:
    """An environment, and what a run of the sample in it has to come to.

    ``name`` is the first cell of its row in ``docs/environments.rst``. Every test has its right verdict,
    unless ``says`` is set: then each test with ranks is an error of unittest that contains this text, and
    ``run_tests.py`` prints it and ends with ``code``. Both commands run, or the ones in ``by``; pytest,
    with ``arguments``, is another.
    """

    name: str
    flags: Sequence[str] = ()  # Python's
    variables: Mapping[str, str | None] = field(default_factory=dict)  # may name {here} and {tree}
    prefix: Sequence[str] = ()  # a command that runs the command
    in_child: Callable[[], object] | None = None  # called in the process that becomes the command
    prepare: Callable[[Path], None] = nothing  # makes files in the row's directory before
    module: str = "test_sample"
    below: str = ""  # the sample's directory, in which the command starts, below that of the row
    sample: str = "sample"
    says: str = ""
    code: int = 2
    by: Sequence[str] = ("unittest", "run_tests")
    arguments: Sequence[str] = ()  # pytest's
    silent: bool = False  # run_tests.py's output goes nowhere: exit code and journal tell
    why_not: Callable[[], str] = always  # why this machine cannot make the environment, or ""

    @property
    def words(self) -> str:
        """Returns the name as the end of a test's name."""
        return re.sub(r"\W+", "_", self.name).strip("_")


def each(rows: Sequence[Row]) -> list[subtest]:
    """Returns the values by which a test is parametrized, one a row."""
    return [subtest(row, name=row.words) for row in rows]


class EnvironmentCase(unittest.TestCase):
    """Base class of the tests: ``run_row`` runs the sample in an environment and checks what became.

    Where ``warm``, ``run_tests.py`` has been imported before: for environments that begin with the sample.
    """

    warm: ClassVar[bool] = False

    def run_row(self, row: Row) -> None:
        """Runs a row by each of its commands, each in a directory of its own."""
        if reason := row.why_not():
            self.skipTest(reason)
        for way in row.by:
            with self.subTest(by=way):
                directory = runs.new_directory(self)
                place = directory / row.below
                place.mkdir(parents=True, exist_ok=True)
                shutil.copy(HERE / f"{row.sample}.py", place / "test_sample.py")
                row.prepare(place)
                run = {
                    "unittest": self._by_unittest,
                    "run_tests": self._by_run_tests,
                    "pytest": self._by_pytest,
                }
                run[way](row, directory, place)

    def _by_unittest(self, row: Row, directory: Path, place: Path) -> None:
        readable, writable = os.pipe()
        with os.fdopen(readable, "rb") as verdicts:
            try:
                program = [str(HERE / "by_unittest.py"), str(writable), row.module]
                done = _run(row, directory, place, program, keep=writable)
            finally:
                os.close(writable)
            written = verdicts.read()
        self.assertTrue(written, done.stderr)
        found: dict[str, list[str]] = json.loads(written)
        statuses = {name: status for name, (status, _) in found.items()}
        self.assertEqual(statuses, dict.fromkeys(RIGHT, "error") if row.says else RIGHT, found)
        self.assertEqual(done.returncode, 1, done.stderr)
        for name, status in statuses.items():
            if status != "passed":
                self.assertIn(row.says or "rank one is wrong", found[name][1])

    def _by_run_tests(self, row: Row, directory: Path, place: Path) -> None:
        done = _run(row, directory, place, [str(RUN_TESTS), row.module], warm=self.warm)
        said = done.stdout + done.stderr
        if row.says:
            self.assertIn(row.says, said)
            self.assertEqual(done.returncode, row.code, said)
            return
        self.assertEqual(done.returncode, 1, said)
        if not row.silent:
            self.assertIn(COUNTS, said)
        journals = [journal.read_text() for journal in directory.rglob("journal.jsonl")]
        if row.silent:
            self.assertEqual(len(journals), 1)
        for text in journals:
            records = [line for line in map(json.loads, text.splitlines()) if line["kind"] == "test"]
            statuses = {".".join(line["id"].split(".")[-2:]): line["status"] for line in records}
            self.assertEqual(statuses, RIGHT)

    def _by_pytest(self, row: Row, directory: Path, place: Path) -> None:
        report = directory / "junit.xml"
        as_if_installed(directory / "site")
        program = ["-m", "pytest", *USUAL, f"--junitxml={report}", *row.arguments, f"{row.module}.py"]
        done = _run(row, directory, place, program, more=directory / "site")
        self.assertTrue(report.exists(), done.stdout + done.stderr)
        found = {
            f"{case.get('classname', '').split('.')[-1]}.{case.get('name')}": case
            for case in ElementTree.parse(report).iter("testcase")
        }
        statuses = {
            name: "passed" if case.find("failure") is None and case.find("error") is None else "failed"
            for name, case in found.items()
        }
        self.assertEqual(statuses, dict.fromkeys(RIGHT, "failed") if row.says else RIGHT, done.stdout)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        for name, status in statuses.items():
            if status == "failed":
                self.assertIn(row.says or "rank one is wrong", "".join(found[name].itertext()))


def _run(
    row: Row,
    directory: Path,
    place: Path,
    program: Sequence[str],
    keep: int | None = None,
    more: Path | None = None,
    warm: bool = False,
) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(map(str, filter(None, (more, TREE, place))))
    environ: dict[str, str] = {**runs.environ(directory), "PYTHONPATH": path}
    environ.pop("PYTHONUNBUFFERED", None)  # what a stream holds at the end is part of the environment
    for name, value in row.variables.items():
        if value is None:
            environ.pop(name, None)
        else:
            environ[name] = value.replace("{here}", str(place)).replace("{tree}", TREE)
    if warm:
        return warm_python.run_runner(program, cwd=place, env=environ, timeout=PATIENCE_S)
    return subprocess.run(
        [*row.prefix, sys.executable, *row.flags, *program],
        cwd=place,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        errors="backslashreplace",
        timeout=PATIENCE_S,
        check=False,
        pass_fds=() if keep is None else (keep,),
        preexec_fn=row.in_child,
    )
