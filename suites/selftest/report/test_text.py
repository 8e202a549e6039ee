"""Self-tests of harness.report.text: safe text, durations, and streams that break."""

from __future__ import annotations

import io
import unittest
from typing import TextIO

from harness.outcomes import Status
from harness.record import TestRecord
from harness.report import text
from suites.selftest.report.runs import NASTY


class TextTest(unittest.TestCase):
    """The pure functions of the module."""

    def test_visible(self) -> None:
        table = {
            "plain\n\ttext ü": "plain\n\ttext ü",
            "\x1b[1;31mred\x1b[0m": "red",
            "\x1b]0;title\x07after": "after",
            "a\r\nb\rc": "a\nb\\x0dc",
            "nul\x00 c1\x85": "nul\\x00 c1\\x85",
        }
        for given, shown in table.items():
            with self.subTest(repr(given)):
                self.assertEqual(text.visible(given), shown)

    def test_durations(self) -> None:
        self.assertEqual(
            [text.seconds_text(s) for s in (0.0132, 2.414, 75.23)], ["0.013 s", "2.41 s", "75.2 s"]
        )
        self.assertEqual(
            [text.clock_text(s) for s in (-1, 7, 754, 3723)], ["0:00", "0:07", "12:34", "1:02:03"]
        )

    def test_tail_keeps_the_end(self) -> None:
        self.assertEqual(text.tail("suites.a.T.test_x", 9), "...test_x")
        self.assertEqual(text.tail("short", 9), "short")

    def test_ranks_suffix(self) -> None:
        self.assertEqual([text.ranks_suffix(n) for n in (None, 1, 4)], ["", " (1 rank)", " (4 ranks)"])

    def test_one_line(self) -> None:
        self.assertEqual(text.one_line("\n\n  first \nsecond"), "first")
        self.assertEqual(len(text.one_line("x" * 500)), 200)

    def test_why(self) -> None:
        failed = Status.FAILED
        table = {
            "the reason": TestRecord("a", failed, reason="the reason\nmore", details="x"),
            "KeyError: 1": TestRecord("a", failed, details="Traceback\nKeyError: 1\n\n"),
            "failed": TestRecord("a", failed),
        }
        for said, record in table.items():
            self.assertEqual(text.why(record), said)


class SafeStreamTest(unittest.TestCase):
    """``SafeStream``: errors of the stream do not end the run."""

    def test_what_an_encoding_lacks_is_spelled_out(self) -> None:
        for encoding in ("ascii", "latin-1", "utf-8", "cp1252"):
            with self.subTest(encoding):
                raw = io.BytesIO()
                stream = text.SafeStream(io.TextIOWrapper(raw, encoding=encoding, write_through=True))
                stream.write(NASTY)
                self.assertIn(r"\ud800", raw.getvalue().decode(encoding))

    def test_readers_that_go_away_end_nothing(self) -> None:
        """After an error of the stream, writes are dropped and nothing is raised."""

        class Broken(io.StringIO):
            calls = 0

            def write(self, _: str, /) -> int:
                self.calls += 1
                raise BrokenPipeError

        broken = Broken()
        stream = text.SafeStream(broken)
        self.assertEqual(stream.write("abc"), 3)
        stream.write("more")
        stream.flush()
        self.assertEqual(broken.calls, 1)

    def test_closed_stream(self) -> None:
        closed: TextIO = io.StringIO()
        closed.close()
        stream = text.SafeStream(closed)
        stream.flush()
        stream.write("x")
        self.assertFalse(stream.isatty())


if __name__ == "__main__":
    unittest.main()
