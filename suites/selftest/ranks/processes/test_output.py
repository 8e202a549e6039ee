"""Tests what is kept, logged and shown of a rank's output."""

from __future__ import annotations

import tempfile
import tracemalloc
import unittest
from pathlib import Path
from unittest import mock

from hypothesis import strategies as st

from harness.ranks.processes import output
from harness.ranks.processes.output import TAIL_BYTES, Output
from suites.selftest.properties import given


class TailTest(unittest.TestCase):
    """The end of the output, which is kept in memory."""

    @given(st.lists(st.binary(max_size=3 * TAIL_BYTES // 2), max_size=4))
    def test_tail(self, chunks: list[bytes]) -> None:
        """The last 64 KiB of the output are kept, with the number of bytes before them."""
        whole, kept = b"".join(chunks), Output()
        for chunk in chunks:
            kept.feed(chunk)
        tail = whole[-TAIL_BYTES:].decode("utf-8", "backslashreplace")
        left_out = len(whole) - len(whole[-TAIL_BYTES:])
        head = f"[... {left_out} bytes left out ...]\n" if left_out else ""
        self.assertEqual(kept.text(), head + tail)

    def test_memory(self) -> None:
        """A rank that prints for ever does not fill the memory."""
        kept, chunk = Output(), bytes(TAIL_BYTES)
        tracemalloc.start()
        self.addCleanup(tracemalloc.stop)
        for _ in range(50):
            kept.feed(chunk)
        now, _ = tracemalloc.get_traced_memory()
        self.assertLess(now, 5 * TAIL_BYTES)

    def test_undecodable(self) -> None:
        """Bytes that do not decode are shown as escapes."""
        kept = Output()
        kept.feed(b"a\xffb")
        self.assertEqual(kept.text(), "a\\xffb")


class ShownTest(unittest.TestCase):
    """Output that is shown as it comes."""

    def test_all(self) -> None:
        """Each piece is shown, and the end of the output is told."""
        shown = mock.Mock()
        out = Output(shown=shown)
        out.feed(b"one")
        out.feed(b"two\n")
        out.close()
        self.assertEqual(
            shown.mock_calls, [mock.call.feed(b"one"), mock.call.feed(b"two\n"), mock.call.close()]
        )


class LogTest(unittest.TestCase):
    """The log file with all of the output."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def test_file(self) -> None:
        """The file holds every byte."""
        path = Path(self.directory, "log")
        out = Output(log=path)
        out.feed(b"one\xff")
        out.feed(b"two")
        out.close()
        self.assertEqual(path.read_bytes(), b"one\xfftwo")

    def test_bound(self) -> None:
        """The file stops growing at its limit."""
        path = Path(self.directory, "log")
        out = Output(log=path)
        chunk = b"x" * (output.LOG_BYTES // 4)
        for _ in range(8):
            out.feed(chunk)
        out.close()
        self.assertEqual(path.stat().st_size, output.LOG_BYTES)

    def test_close_twice(self) -> None:
        """A second close does nothing."""
        out = Output(log=Path(self.directory, "log"))
        out.close()
        out.close()


if __name__ == "__main__":
    unittest.main()
