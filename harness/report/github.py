"""Reports to GitHub Actions: annotations at the failing lines, and the job's summary page.

Sources: "Workflow commands for GitHub Actions" (``::error``, escaping, ``GITHUB_STEP_SUMMARY``)
and its limits: ten annotations of a kind a step, one MiB of summary a step.
"""

from __future__ import annotations

import html
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TextIO

from harness.record import TestRecord
from harness.report.base import QuietReporter, RunInfo
from harness.report.summary import Attempts, Summary
from harness.report.text import SafeStream, clock_text, count, ranks_suffix, seconds_text, visible, why

MAX_ANNOTATIONS = 10
# GitHub drops a summary above one MiB entirely; this leaves some room for what other tools of the step write.
MAX_SUMMARY_BYTES = 1_000_000
MAX_ROWS = 50
_SLOWEST = 10


class GitHubReporter(QuietReporter):
    """Writes annotations and the summary page when the run is over, since flaky tests are known only then.

    For runs whose ``environ`` has ``GITHUB_ACTIONS``. In it, ``GITHUB_STEP_SUMMARY`` names the file that the
    page is appended to, and ``GITHUB_WORKSPACE`` the directory that annotated paths are relative to.
    """

    def __init__(self, stream: TextIO, environ: Mapping[str, str]) -> None:
        super().__init__()
        page = environ.get("GITHUB_STEP_SUMMARY")
        self._stream = SafeStream(stream)
        self._page = Path(page) if page else None
        self._workspace = environ.get("GITHUB_WORKSPACE", "")

    def finish(self, summary: Summary) -> None:
        """Prints annotations and appends to the summary page."""
        self._stream.write("".join(f"{line}\n" for line in commands(summary, self._workspace)))
        self._stream.flush()
        if self._page is not None:
            with self._page.open("a", encoding="utf-8", errors="replace") as file:
                file.write(summary_page(self.info, summary))


def commands(summary: Summary, workspace: str = "") -> list[str]:
    """The workflow commands: errors for failed tests, warnings for flaky tests and the harness's messages."""
    errors = [_command("error", t.last, t.last.details or why(t.last), workspace) for t in summary.failures]
    warnings = [
        _command("warning", t.failed[0], f"flaky: passed on attempt {t.last.attempt}", workspace)
        for t in summary.flaky
        if t.failed
    ]
    notices = [f"::warning title=test harness::{_data(visible(m))}" for m in summary.messages]
    return [*errors[:MAX_ANNOTATIONS], *[*warnings, *notices][:MAX_ANNOTATIONS]]


def _command(level: str, record: TestRecord, text: str, workspace: str) -> str:
    title = f"{record.status.value}: {record.id}{ranks_suffix(record.world_size)}"
    properties = {"title": visible(title)}
    if record.file:
        properties = {
            "file": _relative(record.file, workspace),
            "line": str(max(1, record.line)),
            **properties,
        }
    written = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {written}::{_data(visible(text))}"


def _relative(file: str, workspace: str) -> str:
    inside = workspace and os.path.isabs(file) and file.startswith(workspace.rstrip("/") + "/")
    return os.path.relpath(file, workspace) if inside else file


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def summary_page(info: RunInfo, summary: Summary) -> str:
    """The step's Markdown, below ``MAX_SUMMARY_BYTES``; pure."""
    shard = f", shard {info.shard_text}" if info.shard else ""
    mark = "❌" if summary.failed or summary.exit_code else "✅"
    head = [
        f"## {mark} {summary.line}",
        "",
        f"{count(len(summary.tests), 'test')} in {clock_text(summary.duration_s)}{shard}"
        + (f": {summary.asides}" if summary.asides else ""),
        "",
    ]
    if summary.rerun_command:
        head += ["Rerun what failed:", "", *_fenced(summary.rerun_command), ""]
    tables = [
        *_table("Flaky", ("test", "before it passed"), [_flaky_row(t) for t in summary.flaky]),
        *_table("Skipped", ("tests", "reason"), [(str(len(ids)), reason) for reason, ids in summary.skips]),
        *_table("Slowest", ("time", "test"), [_slow_row(t) for t in summary.slowest(_SLOWEST)]),
        *_table("Not run", ("test",), [(test_id,) for test_id in summary.not_run]),
    ]
    ends = "\n".join(["", *tables, ""])
    room = MAX_SUMMARY_BYTES - len("\n".join(head).encode("utf-8", "replace"))
    room -= len(ends.encode("utf-8", "replace"))
    return "\n".join([*head, *_failures(summary.failures, room)]) + ends


def _failures(failures: Iterable[Attempts], room: int) -> list[str]:
    """The folded blocks of as many failures as fit into ``room`` bytes, and the number of the others."""
    lines: list[str] = []
    left = list(failures)
    while left:
        block = _failure(left[0].last)
        room -= len("\n".join(block).encode("utf-8", "replace")) + 1
        if room < 0:
            return [*lines, f"... and {count(len(left), 'failure')} more", ""]
        lines += block
        del left[0]
    return lines


def _failure(record: TestRecord) -> list[str]:
    title = html.escape(visible(f"{record.status.value}: {record.id}{ranks_suffix(record.world_size)}"))
    text = visible(record.details).rstrip() or why(record)
    return [f"<details><summary>{title}</summary>", "", *_fenced(text), "", "</details>", ""]


def _flaky_row(test: Attempts) -> tuple[str, str]:
    return (test.id, "; ".join(f"{r.status.value}: {why(r)}" for r in test.failed))


def _slow_row(test: Attempts) -> tuple[str, str]:
    return (seconds_text(test.duration_s), f"{test.id}{ranks_suffix(test.last.world_size)}")


def _fenced(text: str) -> list[str]:
    """A code block with a fence longer than any run of backticks in the text, so that none can end it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}text", text, fence]


def _table(title: str, heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> list[str]:
    if not rows:
        return []
    lines = [f"### {title}", "", f"| {' | '.join(heads)} |", "|" + " --- |" * len(heads)]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows[:MAX_ROWS]]
    if len(rows) > MAX_ROWS:
        lines += ["", f"... and {len(rows) - MAX_ROWS} more"]
    return [*lines, ""]


def _cell(text: str) -> str:
    """The text of a Markdown table's cell, with all that is Markdown or HTML in it escaped."""
    flat = html.escape(" ".join(visible(text).split()), quote=False)
    return re.sub(r"([\\|`*_\[\]~#])", r"\\\1", flat)
