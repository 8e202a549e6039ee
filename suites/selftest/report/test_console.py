"""Self-tests of harness.report.console: when a run gets a live picture and when plain lines."""

from __future__ import annotations

import io
import subprocess
import sys
import unittest

from harness.report.console import colored, console_reporter
from harness.report.live import LiveReporter
from harness.report.plain import PlainReporter


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ConsoleReporterTest(unittest.TestCase):
    """The functions ``console_reporter`` and ``can_draw``."""

    def test_choice(self) -> None:
        """The stream, the environment and ``live`` decide which reporter is made."""
        xterm = {"TERM": "xterm"}
        table: list[tuple[io.StringIO, dict[str, str], bool | None, type]] = [
            (Terminal(), xterm, None, LiveReporter),
            (Terminal(), {**xterm, "NO_COLOR": "1"}, None, LiveReporter),
            (Terminal(), xterm, False, PlainReporter),
            (Terminal(), {**xterm, "CI": "true"}, None, PlainReporter),
            (Terminal(), {"TERM": "dumb"}, None, PlainReporter),
            (io.StringIO(), xterm, None, PlainReporter),
            (io.StringIO(), xterm, True, LiveReporter),
        ]
        for stream, environ, live, expected in table:
            with self.subTest(stream=type(stream).__name__, environ=environ, live=live):
                self.assertIs(type(console_reporter(stream, environ, live=live)), expected)

    def test_colors(self) -> None:
        """The option decides, then NO_COLOR, then FORCE_COLOR, then whether it is a terminal."""
        forced, none = {"FORCE_COLOR": "1"}, {"NO_COLOR": "1"}
        for stream, environ, choice, expected in (
            (Terminal(), {}, "auto", True),
            (Terminal(), {"TERM": "dumb"}, "auto", False),
            (io.StringIO(), {}, "auto", False),
            (io.StringIO(), forced, "auto", True),
            (Terminal(), none, "auto", False),
            (Terminal(), {**forced, **none}, "auto", False),
            (io.StringIO(), none, "always", True),
            (Terminal(), forced, "never", False),
        ):
            with self.subTest(stream=type(stream).__name__, environ=environ, choice=choice):
                self.assertIs(colored(stream, environ, choice), expected)

    def test_closed_stream(self) -> None:
        """A closed stream is not a terminal."""
        stream = Terminal()
        stream.close()
        self.assertIs(type(console_reporter(stream, {"TERM": "xterm"})), PlainReporter)

    def test_no_library_is_imported_before_it_is_needed(self) -> None:
        modules = ("console", "plain", "live", "junit", "results", "html", "trace", "github")
        code = (
            "; ".join(f"import harness.report.{m}" for m in modules)
            + "; import sys; "
            + ("print([m for m in ('rich', 'jinja2', 'junitparser', 'torch') if m in sys.modules])")
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout.strip(), "[]")


if __name__ == "__main__":
    unittest.main()
