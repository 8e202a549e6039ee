"""``ConformanceReporter``: writes ``conformance.json``, ``.html`` and ``.md`` at the end of a run."""

from __future__ import annotations

from pathlib import Path

import harness
from harness.conformance.cells import DIRECTORY, Recorded
from harness.conformance.document import NAME, Conformance, dumps
from harness.conformance.grids import grids
from harness.conformance.left_out import LeftOut
from harness.conformance.matrix import matrix
from harness.conformance.page import html_text, markdown_text
from harness.report.base import QuietReporter, RunInfo
from harness.report.files import write_whole
from harness.report.summary import Summary, rerun_command


class ConformanceReporter(QuietReporter):
    """Writes the three files when the run is over."""

    def __init__(self, directory: Path, target: str, left_out: LeftOut) -> None:
        """``left_out`` also has the tests that the run is going to run."""
        super().__init__()
        self._directory, self._target, self._left_out = directory, target, left_out

    def finish(self, summary: Summary) -> None:
        """Writes what the tests of ``summary`` and the cells that they recorded say about the target."""
        recorded = Recorded(self._directory / DIRECTORY)
        found = conformance(self.info, summary, self._target, recorded, self._left_out)
        write(found, self._directory)


def write(found: Conformance, directory: Path) -> None:
    """Writes the three files; OSError where that is impossible."""
    tables = grids(found.matrix)
    write_whole(directory / NAME, dumps(found))
    write_whole(directory / "conformance.md", markdown_text(found, tables))
    write_whole(directory / "conformance.html", html_text(found, tables))


def conformance(
    info: RunInfo, summary: Summary, target: str, recorded: Recorded, left_out: LeftOut
) -> Conformance:
    """What a run has found out; of several attempts at a test the last counts.

    ``left_out`` is without what the run has run since.
    """
    last = {test.id: test.last for test in summary.tests}
    found = matrix(last.values(), summary.not_run, recorded.of)
    bad = {each.test for each in (*found.tests, *found.cells) if each.state.bad}
    rerun = {test: rerun_command(info.command, [info.names.get(test, test)]) or "" for test in sorted(bad)}
    return Conformance(target, _versions(info), found, rerun, left_out.without(last))


def _versions(info: RunInfo) -> dict[str, str]:
    return {
        "torch": info.torch or "",
        "Python": info.python,
        "torch-harness": harness.__version__,
        "platform": info.platform,
    }
