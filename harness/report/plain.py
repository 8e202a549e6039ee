"""The console as plain lines, for files, CI logs and terminals that cannot move their cursor.

It prints a line of progress every ten seconds, each failure in full as it happens, and a heartbeat line for
each test that takes long. ``-v`` prints one line for each test in place of the progress. There are no dots
and no line for each module, because tests of many modules run at once, longest first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TextIO

from harness.record import TestRecord
from harness.report.base import RunInfo, TestStarted
from harness.report.console_lines import (
    Line,
    closing_lines,
    failure_lines,
    finished_line,
    opening_line,
)
from harness.report.progress import Progress
from harness.report.summary import Summary
from harness.report.text import SafeStream, clock_text, count, ranks_suffix, visible

# The codes of styles in "select graphic rendition" (ECMA-48, 8.3.117).
_CODES = {"bad": "31", "good": "32", "warn": "33", "head": "1", "dim": "2"}
# Seconds between two lines of progress: often enough to see that the run goes on, few enough to skim a log.
PROGRESS_PERIOD_S = 10.0
# Seconds after which a running test gets a heartbeat line, and another each time that time has doubled. CI
# systems that end silent jobs wait minutes.
HEARTBEAT_S = 30.0


class PlainReporter:
    """Writes lines to a stream.

    ``verbosity`` -1 shows only failures and the end of the run, 1 also a line for each test. ``durations`` is
    the number of slowest tests listed at the end.
    """

    def __init__(
        self, stream: TextIO, *, verbosity: int = 0, durations: int = 0, color: bool = False
    ) -> None:
        self._stream = SafeStream(stream)
        self._color = color
        self._verbosity = verbosity
        self._durations = durations
        self._info = RunInfo()
        self._progress = Progress(self._info)
        self._last_progress_s = 0.0
        self._heartbeats: dict[TestStarted, float] = {}

    def start(self, info: RunInfo) -> None:
        """Prints what is about to run."""
        self._info = info
        self._progress = Progress(info)
        self._last_progress_s = info.started_s
        if self._verbosity >= 0:
            self._write([opening_line(info)])

    def test_started(self, event: TestStarted) -> None:
        """Notes the test; a line is printed only when it takes long."""
        self._progress.started(event)

    def test_finished(self, record: TestRecord) -> None:
        """Prints a failure in full, and with ``-v`` one line for every test."""
        self._progress.finished(record)
        counts = self._progress.counts
        if self._verbosity > 0 or (record.flaky and self._verbosity == 0):
            self._write([finished_line(record, counts.done, counts.total)])
        if not record.ok:
            self._write(failure_lines(record, self._info))

    def message(self, text: str) -> None:
        """Prints the message at once."""
        self._write([Line(f"note: {visible(text)}")])

    def show(self, lines: Iterable[str]) -> None:
        """Prints the lines at once, ``-q`` or not: somebody has asked for them."""
        self._write([Line(visible(line)) for line in lines])

    def tick(self, now_s: float) -> None:
        """Prints a line of progress when one is due, and heartbeat lines."""
        if self._verbosity < 0:
            return
        self._write(self._heartbeat(now_s))
        if self._verbosity == 0 and now_s - self._last_progress_s >= PROGRESS_PERIOD_S:
            self._last_progress_s = now_s
            self._write([self._progress_line(now_s)])

    def finish(self, summary: Summary) -> None:
        """Prints the summary."""
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
        """One line for each test that has just reached 30 s, 60 s, 120 s ..."""
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

    def _painted(self, line: Line) -> str:
        code = _CODES.get(line.style) if self._color else None
        return line.text if code is None or not line.text else f"\x1b[{code}m{line.text}\x1b[0m"

    def _write(self, lines: Iterable[Line]) -> None:
        text = "".join(f"{self._painted(line)}\n" for line in lines)
        if text:
            self._stream.write(text)
            self._stream.flush()
