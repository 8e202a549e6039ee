"""All reporters of a run as one, and which a run gets."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from harness.record import TestRecord
from harness.report.base import Reporter, RunInfo, TestStarted
from harness.report.console import console_reporter
from harness.report.summary import Summary


class Reporters:
    """Passes everything on to each reporter. A file that one cannot write is its trouble, not the run's nor
    another reporter's: it is said, and kept in ``failures``."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = tuple(reporters)
        self.failures: list[str] = []
        self.messages: list[str] = []

    def start(self, info: RunInfo) -> None:
        """The run begins."""
        for reporter in self._reporters:
            self._try(reporter.start, info)

    def test_started(self, event: TestStarted) -> None:
        """An attempt begins."""
        for reporter in self._reporters:
            reporter.test_started(event)

    def test_finished(self, record: TestRecord) -> None:
        """An attempt is over."""
        for reporter in self._reporters:
            reporter.test_finished(record)

    def message(self, text: str) -> None:
        """A notice or warning of the harness itself."""
        self.messages.append(text)
        for reporter in self._reporters:
            reporter.message(text)

    def trouble(self, text: str) -> None:
        """A message about something that makes the run's reports incomplete."""
        self.failures.append(text)
        self.message(text)

    def tick(self, now_s: float) -> None:
        """About a second has passed."""
        for reporter in self._reporters:
            reporter.tick(now_s)

    def finish(self, summary: Summary) -> None:
        """The run is over. The console comes first in the list and last here, so that it can tell of the
        files' troubles."""
        for reporter in reversed(self._reporters):
            self._try(reporter.finish, summary)

    def _try(
        self, step: Callable[[RunInfo], None] | Callable[[Summary], None], value: RunInfo | Summary
    ) -> None:
        try:
            step(value)  # type: ignore[arg-type]  # each caller pairs a step with its own kind of value
        except Exception as error:  # noqa: BLE001 - whatever one report's library raises, the others are written
            what = f"{type(error).__name__}: {error}"
            if isinstance(error, OSError):
                what = f"{error.filename}: {error.strerror}" if error.filename else str(error)
            with contextlib.suppress(OSError):  # the console itself may be what cannot be written
                self.trouble(f"a report could not be written: {what}")


def build(
    stream: TextIO,
    environ: Mapping[str, str],
    directory: Path | None,
    *,
    verbosity: int,
    durations: int | None,
    shared_terminal: bool,
    html: bool,
    trace: bool,
) -> Reporters:
    """The reporters that a run gets: the console, files in its directory, and CI systems' own.

    ``shared_terminal`` is set where tests or a debugger write to the same terminal.
    """
    extra = {} if durations is None else {"durations": durations}
    live = False if shared_terminal else None
    reporters: list[Reporter] = [console_reporter(stream, environ, verbosity=verbosity, live=live, **extra)]
    if environ.get("GITHUB_ACTIONS"):
        from harness.report.github import GitHubReporter

        reporters.append(GitHubReporter(stream, environ))
    if directory is not None:
        reporters += _files(directory, html=html, trace=trace)
    return Reporters(reporters)


def _files(directory: Path, *, html: bool, trace: bool) -> list[Reporter]:
    from harness.report.junit import JUnitReporter
    from harness.report.results import ResultsReporter

    files: list[Reporter] = [
        ResultsReporter(directory / "results.jsonl"),
        JUnitReporter(directory / "junit.xml"),
    ]
    if html:
        from harness.report.html import HtmlReporter

        files.append(HtmlReporter(directory / "report.html"))
    if trace:
        from harness.report.trace import TraceReporter

        files.append(TraceReporter(directory / "trace.json"))
    return files
