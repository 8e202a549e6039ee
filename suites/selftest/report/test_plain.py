"""Self-tests of harness.report.plain: the log of a run at each verbosity, progress and heartbeats."""

from __future__ import annotations

import io
import re
import unittest

from harness.report.base import TestStarted
from harness.report.plain import PlainReporter
from suites.selftest.report import runs
from suites.selftest.report.runs import BEGAN_S


def log(verbosity: int = 0) -> list[str]:
    """The log of the whole synthetic run."""
    stream = io.StringIO()
    reporter = PlainReporter(stream, verbosity=verbosity)
    reporter.start(runs.info())
    for record in runs.records():
        reporter.test_started(runs.started(record))
        reporter.test_finished(record)
        reporter.tick(record.started_s + record.duration_s)
    reporter.finish(runs.summary())
    return stream.getvalue().splitlines()


class LogTest(unittest.TestCase):
    """The log of the whole synthetic run."""

    def test_verbose_has_a_line_an_attempt(self) -> None:
        """With ``-v`` each attempt has a line."""
        attempts = [line for line in log(1) if line.startswith("[")]
        self.assertEqual(len(attempts), len(runs.records()))
        self.assertTrue(attempts[-1].startswith("[11/12] FAIL "))

    def test_normal_shows_failures_and_flaky_tests_as_they_happen(self) -> None:
        lines = log()
        ends = [line.split(" ")[0] for line in lines if line.endswith("---") and not line.startswith("--")]
        self.assertEqual(ends, ["FAIL", "CRASH", "ERROR", "FAIL", "TIMEOUT", "XPASS", "FAIL"])
        self.assertEqual(sum("attempt 2, flaky" in line for line in lines), 1)

    def test_quiet_begins_with_the_first_failure(self) -> None:
        self.assertTrue(log(-1)[0].startswith("FAIL suites.c10d.test_sum"))

    def test_colors(self) -> None:
        """They are around whole lines, and the text is the same without them."""
        stream = io.StringIO()
        reporter = PlainReporter(stream, color=True)
        reporter.start(runs.info())
        reporter.finish(runs.summary())
        painted = stream.getvalue()
        self.assertTrue(painted.endswith("\x1b[31m4 passed, 6 failed, 1 skipped\x1b[0m\n"))
        plain = io.StringIO()
        reporter = PlainReporter(plain)
        reporter.start(runs.info())
        reporter.finish(runs.summary())
        self.assertEqual(re.sub("\x1b\\[[0-9]+m", "", painted), plain.getvalue())

    def test_last_line(self) -> None:
        for verbosity in (-1, 0, 1):
            self.assertEqual(log(verbosity)[-1], "4 passed, 6 failed, 1 skipped")


class TickTest(unittest.TestCase):
    """What the passing of time prints."""

    def setUp(self) -> None:
        self.stream = io.StringIO()
        self.reporter = PlainReporter(self.stream)
        self.reporter.start(runs.info())
        self.stream.truncate(0)
        self.stream.seek(0)

    def ticks(self, *seconds: float) -> list[str]:
        for second in seconds:
            self.reporter.tick(BEGAN_S + second)
        return self.stream.getvalue().splitlines()

    def test_progress_every_ten_seconds(self) -> None:
        self.reporter.test_finished(runs.records()[0])
        lines = self.ticks(1, 5, 9.9, 10.1, 11, 19, 20.2)
        self.assertEqual(len(lines), 2)
        self.assertTrue(
            lines[0].startswith("[ 1/12] 1 passed, 0 failed, 0 skipped; 0 tests running; 0:10 elapsed")
        )

    def test_heartbeat_after_30_s_then_doubling(self) -> None:
        self.reporter.test_started(TestStarted("m.T.test_slow", "w3", BEGAN_S, world_size=4))
        lines = [x for x in self.ticks(*range(0, 130, 1)) if x.startswith("still")]
        self.assertEqual(
            lines,
            [
                f"still running after {t}: m.T.test_slow (4 ranks), worker w3"
                for t in ("0:30", "1:00", "2:00")
            ],
        )

    def test_no_heartbeat_of_a_finished_test(self) -> None:
        record = runs.records()[0]
        self.reporter.test_started(runs.started(record))
        self.reporter.test_finished(record)
        self.assertFalse([x for x in self.ticks(100) if x.startswith("still")])

    def test_message_is_one_line(self) -> None:
        self.reporter.message("timings are old")
        self.assertEqual(self.ticks(), ["note: timings are old"])


if __name__ == "__main__":
    unittest.main()
