"""The console as lines: for files, CI logs and terminals that cannot do more.

Tests of many modules run at once and longest first, so that neither dots nor a line a module would tell
anything: there is a line of progress every ten seconds, every failure in full as it happens, and a sign of
life from each test that takes long. ``-v`` shows a line a test instead of the progress.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from harness.record import TestRecord
from harness.report.base import RunInfo, Started
from harness.report.closing import (
    Line,
    closing_lines,
    failure_lines,
    finished_line,
    opening_line,
)
from harness.report.progress import Progress
from harness.report.summary import Summary
from harness.report.text import SafeStream, clock_text, count, ranks_suffix, visible

# Seconds between two lines of progress: often enough to see that it goes on, few enough to skim a log.
PROGRESS_PERIOD_S = 10.0
# Seconds after which a running test gives a sign of life; then each time that has doubled. CI systems
# that end silent jobs wait minutes.
HEARTBEAT_S = 30.0


class PlainReporter:
    """Writes lines to a stream. ``verbosity`` -1 shows failures and the end only, 1 a line a test."""

    def __init__(self, stream: TextIO, *, verbosity: int = 0, durations: int = 0) -> None:
        self._stream = SafeStream(stream)
        self._verbosity = verbosity
        self._durations = durations
        self._info = RunInfo()
        self._progress = Progress(self._info)
        self._last_progress_s = 0.0
        self._heartbeats: dict[Started, float] = {}

    def start(self, info: RunInfo) -> None:
        """Says what is about to run."""
        self._info = info
        self._progress = Progress(info)
        self._last_progress_s = info.started_s
        if self._verbosity >= 0:
            self._write([opening_line(info)])

    def test_started(self, event: Started) -> None:
        """Remembers it; a line comes only when it takes long."""
        self._progress.started(event)

    def test_finished(self, record: TestRecord) -> None:
        """A line under ``-v``; a failure in full."""
        self._progress.finished(record)
        counts = self._progress.counts
        if self._verbosity > 0 or (record.flaky and self._verbosity == 0):
            self._write([finished_line(record, counts.done, counts.total)])
        if not record.ok:
            self._write(failure_lines(record, self._info))

    def message(self, text: str) -> None:
        """A notice, at once."""
        self._write([Line(f"note: {visible(text)}")])

    def tick(self, now_s: float) -> None:
        """Progress where the last one is long past, and signs of life."""
        if self._verbosity < 0:
            return
        self._write(self._heartbeat(now_s))
        if self._verbosity == 0 and now_s - self._last_progress_s >= PROGRESS_PERIOD_S:
            self._last_progress_s = now_s
            self._write([self._progress_line(now_s)])

    def finish(self, summary: Summary) -> None:
        """The summary."""
        self._write(closing_lines(summary, self._info, durations=self._durations, verbosity=self._verbosity))

    def _progress_line(self, now_s: float) -> Line:
        counts = self._progress.counts
        elapsed = clock_text(now_s - self._info.started_s)
        left = clock_text(self._progress.left_s(now_s))
        return Line(
            f"[{counts.done:{len(str(counts.total))}}/{counts.total}] {counts.passed} passed, "
            f"{counts.failed} failed, {counts.skipped} skipped; "
            f"{count(len(self._progress.running), 'test')} running; {elapsed} elapsed, about {left} left"
        )

    def _heartbeat(self, now_s: float) -> list[Line]:
        """A line for each test that has just reached 30 s, 60 s, 120 s ..."""
        running = self._progress.running
        self._heartbeats = {e: self._heartbeats.get(e, HEARTBEAT_S) for e in running}
        lines = []
        for event, due_s in self._heartbeats.items():
            for_s = now_s - event.started_s
            if for_s < due_s:
                continue
            while self._heartbeats[event] <= for_s:
                self._heartbeats[event] *= 2
            where = f", worker {event.worker}" if event.worker else ""
            suffix = ranks_suffix(event.world_size)
            lines.append(Line(f"still running after {clock_text(for_s)}: {visible(event.id)}{suffix}{where}"))
        return lines

    def _write(self, lines: Iterable[Line]) -> None:
        text = "".join(f"{line.text}\n" for line in lines)
        if text:
            self._stream.write(text)
            self._stream.flush()
