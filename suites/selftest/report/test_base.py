"""Self-tests of harness.report.base: every reporter accepts every event, in complete and in broken runs."""

from __future__ import annotations

import io
import tempfile
import unittest
from pathlib import Path

from harness.report.base import Reporter
from harness.report.github import GitHubReporter
from harness.report.html import HtmlReporter
from harness.report.junit import JUnitReporter
from harness.report.live import LiveReporter
from harness.report.plain import PlainReporter
from harness.report.results import ResultsReporter
from harness.report.summary import Summary, summarise
from harness.report.trace import TraceReporter
from suites.selftest.report import runs

FILES = ("junit.xml", "report.html", "results.jsonl", "summary.md", "trace.json")


class EveryReporterTest(unittest.TestCase):
    """All reporters, each given the same events."""

    def setUp(self) -> None:
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.directory = Path(temporary.name)

    def reporters(self) -> list[Reporter]:
        return [
            JUnitReporter(self.directory / "junit.xml"),
            HtmlReporter(self.directory / "report.html"),
            ResultsReporter(self.directory / "results.jsonl"),
            TraceReporter(self.directory / "trace.json"),
            GitHubReporter(io.StringIO(), {"GITHUB_STEP_SUMMARY": str(self.directory / "summary.md")}),
            PlainReporter(io.StringIO(), verbosity=1),
            LiveReporter(io.StringIO(), size=(80, 24)),
        ]

    def files(self) -> list[str]:
        return sorted(p.name for p in self.directory.iterdir() if p.stat().st_size)

    def test_whole_run(self) -> None:
        """After a whole run every report file has been written."""
        for reporter in self.reporters():
            with self.subTest(type(reporter).__name__):
                reporter.start(runs.info(directory=self.directory))
                for record in runs.records():
                    reporter.test_started(runs.started(record))
                    reporter.tick(record.started_s + 0.1)
                    reporter.test_finished(record)
                reporter.message(runs.NASTY)
                reporter.finish(runs.summary())
        self.assertEqual(self.files(), list(FILES))

    def test_end_without_a_beginning(self) -> None:
        """``finish`` alone writes all files, as for a killed run or one that failed before its first test."""
        table: dict[str, Summary] = {"journal": runs.summary(), "nothing": summarise([])}
        for name, summary in table.items():
            for reporter in self.reporters():
                with self.subTest(type(reporter).__name__, summary=name):
                    reporter.finish(summary)
        self.assertEqual(self.files(), list(FILES))

    def test_result_of_a_test_that_never_started(self) -> None:
        """``test_finished`` without ``test_started`` is accepted."""
        for reporter in self.reporters():
            with self.subTest(type(reporter).__name__):
                reporter.start(runs.info())
                reporter.test_finished(runs.records()[4])
                reporter.tick(runs.BEGAN_S + 100)
                reporter.finish(runs.summary(runs.records()[4:5]))


if __name__ == "__main__":
    unittest.main()
