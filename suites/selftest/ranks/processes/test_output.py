"""What is kept, logged and shown of a rank's output."""

from __future__ import annotations

import contextlib
import io
import os
import tempfile
import unittest
from pathlib import Path

from hypothesis import strategies as st

from harness.ranks.processes import output
from harness.ranks.processes.output import TAIL_BYTES, Output, log_file
from suites.selftest.properties import given


class TailTest(unittest.TestCase):
    """The end of it, in memory."""

    @given(st.lists(st.binary(max_size=3 * TAIL_BYTES // 2), max_size=4))
    def test_tail(self, chunks: list[bytes]) -> None:
        """The last 64 KiB of all that came, and the number of bytes before them."""
        whole, kept = b"".join(chunks), Output(0)
        for chunk in chunks:
            kept.feed(chunk)
        tail = whole[-TAIL_BYTES:].decode("utf-8", "backslashreplace")
        left_out = len(whole) - len(whole[-TAIL_BYTES:])
        head = f"[... {left_out} bytes left out ...]\n" if left_out else ""
        self.assertEqual(kept.text(), head + tail)
        self.assertLessEqual(len(kept._tail), 2 * TAIL_BYTES)

    def test_undecodable(self) -> None:
        """Shown as escapes."""
        kept = Output(0)
        kept.feed(b"a\xffb")
        self.assertEqual(kept.text(), "a\\xffb")


class StreamTest(unittest.TestCase):
    """Line by line to the terminal."""

    def shown(self, *chunks: bytes) -> str:
        """What these chunks come to."""
        stream = io.StringIO()
        with contextlib.redirect_stdout(stream):
            out = Output(3, stream=True)
            for chunk in chunks:
                out.feed(chunk)
            out.close()
        return stream.getvalue()

    def test_lines(self) -> None:
        """Each with its rank, however the bytes were cut."""
        self.assertEqual(
            self.shown(b"on", b"e\ntwo\nth", b"ree"), "[rank 3] one\n[rank 3] two\n[rank 3] three\n"
        )

    def test_nothing(self) -> None:
        """No line for no output."""
        self.assertEqual(self.shown(), "")

    def test_split_character(self) -> None:
        """A character that comes in two pieces is one."""
        ae = "ä".encode()
        self.assertEqual(self.shown(ae[:1], ae[1:] + b"\n"), "[rank 3] ä\n")

    def test_bytes(self) -> None:
        """A stream with a buffer gets bytes as they are."""
        raw = io.BytesIO()
        text = io.TextIOWrapper(raw, encoding="ascii")
        with contextlib.redirect_stdout(text):
            out = Output(0, stream=True)
            out.feed(b"\xff\n")
            out.close()
        self.assertEqual(raw.getvalue(), b"[rank 0] \xff\n")


class LogTest(unittest.TestCase):
    """All of it, in a file."""

    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name

    def test_file(self) -> None:
        """Everything, as bytes; the directory is made."""
        path = log_file(os.path.join(self.directory, "deep", "er"), "a.B.test_c", 2)
        assert path is not None
        out = Output(2, log=path)
        out.feed(b"one\xff")
        out.feed(b"two")
        out.close()
        self.assertEqual(path.read_bytes(), b"one\xfftwo")
        self.assertEqual(path.name, "a.B.test_c.rank2.log")

    def test_bound(self) -> None:
        """It stops growing where it is full."""
        path = Path(self.directory, "log")
        out = Output(0, log=path)
        chunk = b"x" * (output.LOG_BYTES // 4)
        for _ in range(8):
            out.feed(chunk)
        out.close()
        self.assertEqual(path.stat().st_size, output.LOG_BYTES)

    def test_no_directory(self) -> None:
        """No log without one."""
        self.assertIsNone(log_file(None, "a", 0))
        self.assertIsNone(log_file("", "a", 0))

    def test_names(self) -> None:
        """Nothing of a test's id escapes the directory or is too long for a file's name."""
        for test_id in ("../../etc/passwd", "a b/c\0d", "x" * 500):
            path = log_file(self.directory, test_id, 0)
            assert path is not None
            self.assertEqual(path.parent, Path(self.directory))
            self.assertLess(len(path.name), 255)
            path.touch()

    def test_close_twice(self) -> None:
        """The second does nothing."""
        out = Output(0, log=Path(self.directory, "log"))
        out.close()
        out.close()


if __name__ == "__main__":
    unittest.main()
