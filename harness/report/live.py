"""The console on a terminal: finished tests scroll by, and below them a live part shows the running ones."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, TextIO

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
from harness.report.text import SafeStream, clock_text, ranks_suffix, tail, visible

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.live import Live

_STYLES = {"bad": "red", "good": "green", "warn": "yellow", "head": "bold", "dim": "dim"}
# Seconds between two drawings: more often is not visible, and 10,000 quick tests must not draw 10,000 times.
REDRAW_PERIOD_S = 0.1
# At most so many tests are shown as running: a live part higher than the terminal would scroll.
MAX_RUNNING = 12
# The width where COLUMNS says 0, which would show nothing.
UNKNOWN_COLUMNS = 80
# Columns of a running test's line that are not its id: worker, time, margins.
_BESIDE_ID = 26


class LiveReporter:
    """Draws with rich, always in the calling thread: a drawing thread would not survive the fork of workers.

    ``clock`` is the monotonic clock. ``stream`` is a terminal. ``size`` is (columns, lines); None asks the
    terminal, and tests that write elsewhere pass a size.
    """

    def __init__(
        self,
        stream: TextIO,
        *,
        verbosity: int = 0,
        durations: int = 0,
        color: bool = True,
        size: tuple[int, int] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        from rich.console import Console

        columns, lines = size or (None, None)
        self._console: Console = Console(
            file=SafeStream(stream),  # type: ignore[arg-type]  # rich asks for no more than this one has
            force_terminal=True,
            no_color=not color,
            width=columns,
            height=lines,
            highlight=False,
            markup=False,
            emoji=False,
        )
        if not self._console.width:  # COLUMNS=0
            self._console.width = UNKNOWN_COLUMNS
        self._verbosity = verbosity
        self._durations = durations
        self._clock = clock
        self._info = RunInfo()
        self._progress = Progress(self._info)
        self._live: Live | None = None
        self._drawn_s = 0.0

    def start(self, info: RunInfo) -> None:
        """Prints what is about to run and opens the live part."""
        from rich.live import Live

        self._info = info
        self._progress = Progress(info)
        if self._verbosity >= 0:
            self._print([opening_line(info)])
        self._live = Live(
            console=self._console,
            auto_refresh=False,
            transient=True,
            redirect_stdout=False,
            redirect_stderr=False,
        )
        self._live.start()
        # A run that is killed must not leave its terminal without a cursor.
        self._console.show_cursor(True)

    def test_started(self, event: TestStarted) -> None:
        """Adds the test to the running ones."""
        self._progress.started(event)
        self._draw(self._clock())

    def test_finished(self, record: TestRecord) -> None:
        """Prints a failure in full above the live part, and with ``-v`` one line for every test."""
        self._progress.finished(record)
        counts = self._progress.counts
        if self._verbosity > 0 or (record.flaky and self._verbosity == 0):
            self._print([finished_line(record, counts.done, counts.total)])
        if not record.ok:
            self._print(failure_lines(record, self._info))
        self._draw(self._clock())

    def message(self, text: str) -> None:
        """Prints the message at once above the live part."""
        self._print([Line(f"note: {visible(text)}", "warn")])

    def show(self, lines: Iterable[str]) -> None:
        """Prints the lines above the live part."""
        self._print([Line(visible(line)) for line in lines])

    def tick(self, now_s: float) -> None:
        """Draws the live part again."""
        self._draw(now_s, at_once=True)

    def finish(self, summary: Summary) -> None:
        """Removes the live part and prints the summary."""
        if self._live is not None:
            self._live.stop()
            self._live = None
        self._print(closing_lines(summary, self._info, durations=self._durations, verbosity=self._verbosity))

    def _print(self, lines: Iterable[Line]) -> None:
        """Prints all lines at once, since each print redraws the live part.

        Long lines are not folded, so that a path or a command can be copied.
        """
        from rich.text import Text

        if self._live is not None:
            self._live.update(self._picture(self._clock()))
        parts = (Text(line.text, _STYLES.get(line.style, "")) for line in lines)
        self._console.print(Text("\n").join(parts), soft_wrap=True)

    def _draw(self, now_s: float, *, at_once: bool = False) -> None:
        if self._live is None or (not at_once and now_s - self._drawn_s < REDRAW_PERIOD_S):
            return
        self._drawn_s = now_s
        self._live.update(self._picture(now_s), refresh=True)

    def _picture(self, now_s: float) -> RenderableType:
        from rich.console import Group

        running = self._progress.running
        room = max(1, min(MAX_RUNNING, self._console.height - 4))
        rows: list[RenderableType] = [self._running_row(e, now_s) for e in running[:room]]
        if len(running) > room:
            rows.append(f"  ... and {len(running) - room} more")
        if self._verbosity < 0:
            rows = []
        return Group(self._bar(now_s), *rows)

    def _bar(self, now_s: float) -> RenderableType:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        counts = self._progress.counts
        text = Text(f"{counts.done}/{counts.total}")
        if counts.failed:
            text.append(f"  {counts.failed} failed", "bold red")
        if counts.skipped:
            text.append(f"  {counts.skipped} skipped", "yellow")
        elapsed = clock_text(now_s - self._info.started_s)
        text.append(f"  {elapsed}, about {clock_text(self._progress.left_s(now_s))} left")
        grid = Table.grid(padding=(0, 1))
        width = max(4, min(40, self._console.width - len(text) - 4))
        style = "red" if counts.failed else "green"
        bar = ProgressBar(
            max(counts.total, 1), counts.done, width=width, complete_style=style, finished_style=style
        )
        grid.add_row(bar, text)
        return grid

    def _running_row(self, event: TestStarted, now_s: float) -> RenderableType:
        from rich.text import Text

        suffix = ranks_suffix(event.world_size) + (f" attempt {event.attempt}" if event.attempt > 1 else "")
        room = max(10, self._console.width - _BESIDE_ID - len(suffix))
        row = Text(
            f"  {event.worker:>6} {clock_text(now_s - event.started_s):>7}  ", no_wrap=True, style="dim"
        )
        row.append(tail(visible(event.id), room), "default not dim")
        row.append(suffix, "cyan not dim")
        return row
