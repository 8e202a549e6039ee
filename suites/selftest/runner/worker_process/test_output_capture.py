"""Tests that captured output is split by test and kept within bounds."""

from __future__ import annotations

import unittest

from hypothesis import strategies as st

from harness.runner.worker_process.output_capture import (
    BEFORE_THE_FIRST,
    BoundedOutput,
    OutputSplitter,
    elide,
    marker_line,
)
from suites.selftest.properties import given

MARKER = "\x1eharness-0011-"


class OutputSplitterTest(unittest.TestCase):
    """Each test gets its own output, however the bytes are read."""

    @given(
        st.lists(st.text(alphabet="a\n\x1eh-", max_size=30), max_size=5),
        st.lists(st.integers(1, 9), min_size=1, max_size=20),
    )
    def test_any_cut(self, outputs: list[str], sizes: list[int]) -> None:
        """Markers may come in pieces, and tests may print pieces of a marker."""
        data = b"before"
        for seq, text in enumerate(outputs, 1):
            data += marker_line(MARKER, seq) + text.encode()
        splitter = OutputSplitter(MARKER)
        at = turn = 0
        while at < len(data):
            size = sizes[turn % len(sizes)]
            splitter.feed(data[at : at + size])
            at, turn = at + size, turn + 1
        last = len(outputs)
        for seq, text in enumerate(outputs, 1):
            got = splitter.rest(seq) if seq == last else splitter.take(seq)
            self.assertEqual(got, text)
        self.assertEqual(splitter.rest(BEFORE_THE_FIRST), "before")

    def test_a_test_that_prints_nothing(self) -> None:
        """A test that prints nothing has no output."""
        self.assertEqual(OutputSplitter(MARKER).take(3), "")


class BoundedOutputTest(unittest.TestCase):
    """Output of which only the beginning and the end are kept."""

    @given(st.lists(st.binary(max_size=40), max_size=20))
    def test_any_writes(self, writes: list[bytes]) -> None:
        """Short output is whole; of long output, head and tail are exact and the gap is counted."""
        output = BoundedOutput(head=16, tail=16)
        for data in writes:
            output.write(bytes(b & 0x7F for b in data))
        whole = b"".join(bytes(b & 0x7F for b in data) for data in writes).decode()
        if len(whole) <= 32:
            self.assertEqual(output.text(), whole)
        else:
            gap = f"\n... {len(whole) - 32} bytes left out ...\n"
            self.assertEqual(output.text(), whole[:16] + gap + whole[-16:])

    def test_not_utf8(self) -> None:
        """Bytes that are not UTF-8 are shown as escapes."""
        output = BoundedOutput()
        output.write(b"\xff ok")
        self.assertEqual(output.text(), "\\xff ok")


class ElideTest(unittest.TestCase):
    """``elide``, which shortens a text to a length."""

    def test_both_ends(self) -> None:
        """Text that fits stays; longer text keeps more of its end than of its beginning."""
        self.assertEqual(elide("abc", 3), "abc")
        self.assertEqual(elide("a" * 50 + "b" * 50, 8), "aa\n... 92 characters left out ...\nbbbbbb")


if __name__ == "__main__":
    unittest.main()
