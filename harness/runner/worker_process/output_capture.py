"""Splits the captured output of a worker by test, and keeps the beginning and end of what is too long.

A worker writes a marker with the test's number to its output pipe before each test. All bytes up to the next
marker are that test's output.
"""

from __future__ import annotations

# Bytes of a test's output that are kept: enough for any log that a person reads, and so few that the memory
# does not fill up where ten thousand tests print without end.
HEAD_BYTES = 32 * 1024
TAIL_BYTES = 96 * 1024

# The number under which output from before the first test is kept.
BEFORE_THE_FIRST = 0


class BoundedOutput:
    """The beginning and the end of a stream of bytes of any length."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def write(self, data: bytes) -> None:
        """Adds bytes, and drops bytes from the middle where there are too many."""
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_size:  # seldom, because dropping moves the whole tail
            self._drop()

    def _drop(self) -> None:
        extra = len(self._tail) - self._tail_size
        if extra > 0:
            self._dropped += extra
            del self._tail[:extra]

    def text(self) -> str:
        """The kept bytes as text, with a line in the gap that tells how many bytes were dropped."""
        self._drop()
        gap = f"\n... {self._dropped} bytes left out ...\n".encode() if self._dropped else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode(errors="backslashreplace")


def elide(text: str, most: int) -> str:
    """The text; of one with more than ``most`` characters the beginning and the end, with a note between."""
    if len(text) <= most:
        return text
    head, tail = most // 4, most - most // 4
    return f"{text[:head]}\n... {len(text) - most} characters left out ...\n{text[-tail:]}"


def marker_line(marker: str, seq: int) -> bytes:
    """The bytes that a worker writes to its output pipe when test ``seq`` begins."""
    return f"{marker}{seq:012d}\n".encode()


class OutputSplitter:
    """Splits a worker's output at the markers while it is read, and keeps each test's part."""

    def __init__(self, marker: str) -> None:
        self._marker = marker.encode()
        self._line_size = len(marker_line(marker, 0))
        self._pending = b""
        self._current = BEFORE_THE_FIRST
        self._outputs: dict[int, BoundedOutput] = {}

    def feed(self, data: bytes) -> None:
        """Adds bytes from the pipe. Bytes that may be the beginning of a marker wait for the next call."""
        data = self._pending + data
        self._pending = b""
        while (at := data.find(self._marker)) >= 0 and len(data) >= at + self._line_size:
            self._keep(data[:at])
            number = data[at + len(self._marker) : at + self._line_size].rstrip(b"\n")
            if number.isdigit():  # else a test has printed the marker
                self._current = int(number)
            data = data[at + self._line_size :]
        keep = at if at >= 0 else len(data) - self._partial(data)
        self._keep(data[:keep])
        self._pending = data[keep:]

    def _partial(self, data: bytes) -> int:
        """The number of bytes at the end of the data that may be the beginning of a marker."""
        at = data.find(self._marker[:1], max(0, len(data) - len(self._marker) + 1))
        while at >= 0 and not self._marker.startswith(data[at:]):
            at = data.find(self._marker[:1], at + 1)
        return len(data) - at if at >= 0 else 0

    def _keep(self, data: bytes) -> None:
        if data:
            self._outputs.setdefault(self._current, BoundedOutput()).write(data)

    def take(self, seq: int) -> str:
        """Returns the output of a test that has ended, and forgets it."""
        output = self._outputs.pop(seq, None)
        return output.text() if output is not None else ""

    def rest(self, seq: int) -> str:
        """Returns the output of a test whose worker has ended, with the bytes that were held back."""
        if self._current == seq:
            self._keep(self._pending)
            self._pending = b""
        return self.take(seq)
