"""Self-tests of harness.report.live: the picture on a terminal of given size, at given times."""

from __future__ import annotations

import io
import os
import unittest
from unittest import mock

from harness.report.base import TestStarted
from harness.report.live import MAX_RUNNING, LiveReporter
from harness.report.text import visible
from suites.selftest.report import runs
from suites.selftest.report.runs import BEGAN_S


class LiveReporterTest(unittest.TestCase):
    """``LiveReporter`` on a stream that stands for a terminal."""

    def setUp(self) -> None:
        self.stream = io.StringIO()

    def reporter(self, *, color: bool = True, size: tuple[int, int] = (100, 40)) -> LiveReporter:
        reporter = LiveReporter(self.stream, color=color, size=size, clock=lambda: BEGAN_S)
        reporter.start(runs.info())
        return reporter

    def shown(self) -> str:
        """The text written since the last call, without control sequences."""
        text = visible(self.stream.getvalue().replace("\r", ""))
        self.stream.truncate(0)
        self.stream.seek(0)
        return text

    def test_picture(self) -> None:
        """The live part has the counts, the time left and the running tests."""
        reporter = self.reporter()
        reporter.test_finished(runs.records()[2])
        reporter.test_started(TestStarted("m.T.test_slow", "w3", BEGAN_S, world_size=4))
        self.shown()
        reporter.tick(BEGAN_S + 65)
        bar, row = self.shown().strip().splitlines()
        self.assertRegex(bar, r"1/12  1 failed  1:05, about \d:\d\d left")
        self.assertEqual(row.split(), ["w3", "1:05", "m.T.test_slow", "(4", "ranks)"])

    def test_failure_is_printed_above(self) -> None:
        reporter = self.reporter()
        record = runs.records()[2]
        reporter.test_finished(record)
        self.assertIn("cause: rank 1 failed: AssertionError: 3 != 4\n", self.shown())

    def test_long_lines_are_not_folded(self) -> None:
        reporter = self.reporter(size=(60, 10))
        reporter.finish(runs.summary())
        command = runs.summary().rerun_command
        assert command is not None
        self.assertIn(visible(command), self.shown())

    def test_no_columns(self) -> None:
        """COLUMNS=0 does not make the text disappear."""
        with mock.patch.dict(os.environ, COLUMNS="0"):
            reporter = LiveReporter(self.stream, clock=lambda: BEGAN_S)
        reporter.message("look")
        self.assertIn("note: look", self.shown())

    def test_small_terminal(self) -> None:
        reporter = self.reporter(size=(30, 6))
        for n in range(MAX_RUNNING + 5):
            reporter.test_started(TestStarted(f"suites.module.Case.test_number_{n}", f"w{n}", BEGAN_S + n))
        self.shown()
        reporter.tick(BEGAN_S + 60)
        lines = self.shown().strip("\n").splitlines()
        self.assertLessEqual(len(lines), 6)
        self.assertLessEqual(max(map(len, lines)), 30)
        self.assertIn("... and 15 more", lines[-1])

    def test_no_color(self) -> None:
        reporter = self.reporter(color=False)
        reporter.test_finished(runs.records()[2])
        reporter.tick(BEGAN_S + 1)
        reporter.finish(runs.summary())
        self.assertNotRegex(self.stream.getvalue(), r"\x1b\[[0-9;]*(?:3[0-7]|38;|9[0-7])[0-9;]*m")

    def test_cursor_is_never_left_hidden(self) -> None:
        self.reporter()
        text = self.stream.getvalue()
        self.assertGreater(text.rfind("\x1b[?25h"), text.rfind("\x1b[?25l"))

    def test_last_line_and_whole_run(self) -> None:
        reporter = self.reporter()
        for record in runs.records():
            reporter.test_started(runs.started(record))
            reporter.test_finished(record)
        reporter.message("timings are old")
        reporter.finish(runs.summary())
        text = self.shown()
        self.assertEqual(text.splitlines()[-1], "4 passed, 6 failed, 1 skipped")
        self.assertIn("note: timings are old\n", text)

    def test_terminal_that_cannot_print_it(self) -> None:
        raw = io.BytesIO()
        ascii_only = io.TextIOWrapper(raw, encoding="ascii", write_through=True)
        reporter = LiveReporter(ascii_only, size=(80, 20), clock=lambda: BEGAN_S)
        reporter.start(runs.info())
        for record in runs.records():
            reporter.test_finished(record)
        reporter.tick(BEGAN_S + 5)
        reporter.finish(runs.summary())
        self.assertIn(rb"\u2713", raw.getvalue())


if __name__ == "__main__":
    unittest.main()
