"""Chooses the reporters of a run (``build``), and passes every event to all of them (``Reporters``)."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TextIO

from harness.conformance.left_out import LeftOut
from harness.record import TestRecord
from harness.report.base import Reporter, RunInfo, TestStarted
from harness.report.console import console_reporter
from harness.report.junit import JUnitReporter
from harness.report.summary import Summary
from harness.runner.command_line import bazel


class Reporters:
    """Passes every event to each reporter.

    An error of one reporter stops neither the run nor another reporter: it is shown as a message and kept in
    ``failures``.
    """

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = tuple(reporters)
        self.failures: list[str] = []
        self.messages: list[str] = []

    def start(self, info: RunInfo) -> None:
        """Tells the reporters that the run begins."""
        for reporter in self._reporters:
            self._try(reporter.start, info)

    def test_started(self, event: TestStarted) -> None:
        """Tells the reporters that an attempt begins."""
        for reporter in self._reporters:
            reporter.test_started(event)

    def test_finished(self, record: TestRecord) -> None:
        """Tells the reporters that an attempt has ended."""
        for reporter in self._reporters:
            reporter.test_finished(record)

    def message(self, text: str) -> None:
        """Shows a notice or warning of the harness itself, and keeps it in ``messages``."""
        self.messages.append(text)
        for reporter in self._reporters:
            reporter.message(text)

    def trouble(self, text: str) -> None:
        """Shows a message about something that makes the run's files incomplete; the run then fails."""
        self.failures.append(text)
        self.message(text)

    def show(self, lines: Sequence[str]) -> None:
        """Shows what a person has asked for."""
        for reporter in self._reporters:
            reporter.show(lines)

    def tick(self, now_s: float) -> None:
        """Tells the reporters the time, about once a second."""
        for reporter in self._reporters:
            reporter.tick(now_s)

    def finish(self, summary: Summary) -> None:
        """Ends all reports, the console last, so that it can show the errors of the others."""
        for reporter in reversed(self._reporters):
            self._try(reporter.finish, summary)

    def _try(
        self, step: Callable[[RunInfo], None] | Callable[[Summary], None], value: RunInfo | Summary
    ) -> None:
        try:
            step(value)  # type: ignore[arg-type]  # each caller pairs a step with its own kind of value
        except Exception as error:  # noqa: BLE001 - no error of one report may prevent the others
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
    conformance: tuple[str, LeftOut] | None = None,
    color: str = "auto",
) -> Reporters:
    """The reporters of a run: the console, files in its directory, and GitHub's annotations in its CI.

    ``shared_terminal`` is set where tests or a debugger write to the same terminal. ``conformance`` is the
    name of the target whose conformance is reported and the tests that are there, None for no such report.
    ``color`` is "auto", "always" or "never".
    """
    extra = {} if durations is None else {"durations": durations}
    live = False if shared_terminal else None
    console = console_reporter(stream, environ, verbosity=verbosity, live=live, color=color, **extra)
    reporters: list[Reporter] = [console]
    if environ.get("GITHUB_ACTIONS"):
        from harness.report.github import GitHubReporter

        reporters.append(GitHubReporter(stream, environ))
    if directory is not None:
        reporters += _files(directory, html=html, trace=trace)
    reporters += [JUnitReporter(path, places=places) for path, places in _junit_files(directory, environ)]
    if directory is not None and conformance is not None:
        from harness.conformance.reporter import ConformanceReporter

        reporters.append(ConformanceReporter(directory, *conformance))
    return Reporters(reporters)


def _junit_files(directory: Path | None, environ: Mapping[str, str]) -> list[tuple[Path, bool]]:
    """Where JUnit files are wanted, each with whether its cases have files and lines."""
    paths = (directory / "junit.xml" if directory is not None else None, bazel.xml_file(environ))
    return [(path, "JENKINS_URL" not in environ) for path in paths if path is not None]


def _files(directory: Path, *, html: bool, trace: bool) -> list[Reporter]:
    from harness.report.results import ResultsReporter

    files: list[Reporter] = [ResultsReporter(directory / "results.jsonl")]
    if html:
        from harness.report.html import HtmlReporter

        files.append(HtmlReporter(directory / "report.html"))
    if trace:
        from harness.report.trace import TraceReporter

        files.append(TraceReporter(directory / "trace.json"))
    return files
