"""Runs pytest with the plugin, as if it were installed, over test files that a test writes."""

from __future__ import annotations

import ast
import os
import re
import tempfile
import textwrap
import unittest
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from harness.runner.selection.shard_variables import STATUS_FILE, without_shard
from suites.selftest import warm_python

ROOT = Path(__file__).resolve().parents[3]
# Seconds after which a run that should have taken a few counts as hanging, on a machine that is busy too.
PATIENCE_S = 300.0
# Plugins that no test here needs; that of hypothesis takes long to import.
NOT_NEEDED = ("cacheprovider", "hypothesispytest", "anyio", "rerunfailures", "randomly")


def without(*plugins: str) -> tuple[str, ...]:
    """Returns pytest's arguments for a run without plugins."""
    return tuple(word for name in plugins for word in ("-p", f"no:{name}"))


WITHOUT = without(*NOT_NEEDED)
# What a test file begins with.
HEAD = """\
import logging, os, sys, threading, time, unittest, warnings
import pytest
from harness import MultiProcessTestCase, MultiThreadedTestCase

"""


@dataclass(frozen=True, slots=True)
class Finished:
    """A run of pytest that is over."""

    code: int
    out: str

    @property
    def counts(self) -> dict[str, int]:
        """Returns the counts in pytest's last line: ``{"passed": 2, "failed": 1}``."""
        lines = re.findall(r"(?m)^=* ?(\d+ [a-z]+.*) in [\d.]+s", self.out)
        return {
            word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", lines[-1] if lines else "")
        }

    @property
    def ids(self) -> list[str]:
        """Returns the ids that ``--collect-only -q`` printed."""
        return [line for line in self.out.splitlines() if "::" in line]


class PytestCase(unittest.TestCase):
    """Base class of tests with a project of their own and runs of pytest over it.

    Where ``warm``, torch has been imported before pytest and its workers start: not for tests of how these
    start.
    """

    warm: ClassVar[bool] = True

    def setUp(self) -> None:
        """Makes an empty project, and beside it the metadata by which pytest finds the plugin."""
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        self.project = Path(made.name, "project")
        self.project.mkdir()
        self.site = Path(made.name, "site")
        as_if_installed(self.site)

    def write(self, name: str, body: str, *, head: str = HEAD) -> None:
        """Writes a file of the project; a test file begins with imports of what tests need."""
        first = head if name.startswith("test_") else ""
        (self.project / name).write_text(first + textwrap.dedent(body), encoding="utf-8")

    def environ(self, **variables: str) -> dict[str, str]:
        """Returns the environment of a run: this process's without what decides about tests."""
        kept = {
            name: value
            for name, value in without_shard(os.environ).items()
            if not name.startswith(("HARNESS_", "PYTEST_")) and name not in (STATUS_FILE, "CI")
        }
        path = os.pathsep.join((str(self.site), str(ROOT)))
        return {**kept, "PYTHONPATH": path, "COLUMNS": "200", **variables}

    def pytest(self, *arguments: str, **variables: str) -> Finished:
        """Runs pytest in the project."""
        runs = warm_python.run if self.warm else warm_python.run_new
        done = runs(
            ("-m", "pytest", *WITHOUT, *arguments),
            cwd=self.project,
            env=self.environ(**variables),
            timeout=PATIENCE_S,
        )
        return Finished(done.returncode, done.stdout)


def as_if_installed(site: Path) -> None:
    """Makes a directory for ``PYTHONPATH`` with the metadata by which pytest finds the plugin."""
    metadata = site / "torch_harness-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: torch-harness\nVersion: 0\n")
    lines = "\n".join(entry_points()["pytest11"])
    (metadata / "entry_points.txt").write_text(f"[pytest11]\n{lines}\n")


def entry_points() -> dict[str, list[str]]:
    """Returns the entry points in ``setup.py``, by group."""
    for node in ast.walk(ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "entry_points":
            found: dict[str, list[str]] = ast.literal_eval(node.value)
            return found
    raise LookupError("setup.py has no entry_points")


def sections(out: str, title: str) -> Iterator[str]:
    """Yields what stands below each of pytest's section lines with this title."""
    for part in re.split(rf"(?m)^-+ {re.escape(title)} -+$", out)[1:]:
        yield re.split(r"(?m)^(?:-{5,}|={5,}|_{5,}) ", part)[0].strip()
