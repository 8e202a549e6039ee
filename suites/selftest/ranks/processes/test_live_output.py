"""Tests what is shown of ranks' output while they run: whole lines, progress bars, bytes."""

from __future__ import annotations

import contextlib
import io
import os
import unittest
from collections.abc import Sequence
from unittest import mock

from hypothesis import strategies as st

from harness.ranks.processes.live_output import LONGEST_LINE, RankLines, Screen
from suites.selftest.properties import given


def shown(*chunks: bytes, mode: str = "stream") -> bytes:
    """Returns what standard output gets for these chunks of rank 3."""
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    with contextlib.redirect_stdout(stream):
        output = Screen().shown(3, mode)
        assert output is not None
        for chunk in chunks:
            output.feed(chunk)
        output.close()
    stream.detach()
    return raw.getvalue()


class LinesTest(unittest.TestCase):
    """Output that is shown by lines."""

    def test_table(self) -> None:
        """Each line shows its rank, however the bytes were split; what was written over is left out."""
        for chunks, lines in (
            ([], []),
            ([b"on", b"e\ntwo\nth", b"ree"], [b"one", b"two", b"three"]),
            ([b"\n\n"], [b"", b""]),
            (["ä".encode()[:1], "ä".encode()[1:] + b"\n"], ["ä".encode()]),
            ([b"\xff\n"], [b"\xff"]),
            ([b"dos\r\nlines\r", b"\n"], [b"dos", b"lines"]),
            ([b"\r 1%", b"\r 50%", b"\r100%\n", b"done\n"], [b"100%", b"done"]),
            ([b" 1%\r 50%\r", b"100%\r", b"\n"], [b"100%"]),
            ([b"\r 1%\r 2%"], [b" 2%"]),
            ([b"x" * LONGEST_LINE, b"y\n"], [b"x" * LONGEST_LINE, b"y"]),
        ):
            with self.subTest(chunks=[chunk[:20] for chunk in chunks]):
                self.assertEqual(shown(*chunks), b"".join(b"[rank 3] " + line + b"\n" for line in lines))

    @given(st.lists(st.sampled_from([b"a", b"bc", b"\r", b"\n"]), max_size=12), st.data())
    def test_splits(self, pieces: Sequence[bytes], data: st.DataObject) -> None:
        """How the bytes were split changes nothing."""
        whole = b"".join(pieces)
        cut = data.draw(st.integers(0, len(whole)))
        self.assertEqual(shown(whole[:cut], whole[cut:]), shown(whole))

    def test_memory(self) -> None:
        """A progress bar that never ends its line does not fill the memory, nor the screen."""
        screen = mock.Mock()
        lines = RankLines(0, screen)
        for number in range(LONGEST_LINE // 4):
            lines.feed(b"\r%9d%%" % number)
        screen.write.assert_not_called()

    def test_no_standard_output(self) -> None:
        """A process that was started without standard output drops the lines."""
        with mock.patch("sys.stdout", None):
            RankLines(1, Screen()).feed(b"line\nhalf")

    def test_text_only(self) -> None:
        """A stream without a buffer gets text."""
        with contextlib.redirect_stdout(io.StringIO()) as text:
            RankLines(1, Screen()).feed("ä\n".encode())
        self.assertEqual(text.getvalue(), "[rank 1] ä\n")


class BytesTest(unittest.TestCase):
    """The other modes."""

    def test_raw(self) -> None:
        """Bytes go out as they come."""
        self.assertEqual(shown(b"a\r", b"b\xff", mode="raw"), b"a\rb\xff")

    def test_capture(self) -> None:
        """Nothing is shown."""
        self.assertIsNone(Screen().shown(0, "capture"))


class TerminalTest(unittest.TestCase):
    """A terminal, of which the last row shows what has not ended."""

    def test_rows(self) -> None:
        """Lines of other ranks replace it, and it is cut to the terminal's width."""
        raw = io.BytesIO()
        terminal, width = _Terminal(raw), os.terminal_size((20, 10))
        with (
            mock.patch("os.get_terminal_size", return_value=width),
            contextlib.redirect_stdout(terminal),
        ):
            screen = Screen()
            first, second = RankLines(0, screen), RankLines(1, screen)
            first.feed(b"\r 10%")
            first.feed(b"\r 20% \x1b[31mlong bar")
            second.feed(b"line\n")
            first.close()
        terminal.detach()
        clear = b"\r\x1b[K"
        rows = [
            clear + b"[rank 0]  10%",
            clear + b"[rank 0]  20% \x1b[31m" + b"\x1b[0m",
            clear + b"[rank 1] line\n",
            b"[rank 0]  20% \x1b[31mlong bar\n",
        ]
        self.assertEqual(raw.getvalue(), b"".join(rows))


class _Terminal(io.TextIOWrapper):
    """A stream with a descriptor."""

    def fileno(self) -> int:
        """Returns one that a terminal might have."""
        return 1


if __name__ == "__main__":
    unittest.main()
