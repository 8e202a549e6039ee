"""What tests print: a pipe's bytes, split by test and kept within bounds.

A worker writes a marker with the test's number on its output pipe before each test. Whatever follows, up to
the next marker, is that test's; of a flood the beginning and the end are kept.
"""

from __future__ import annotations

# Bytes of a test's output that reports get: enough for any log that a person reads, small enough that ten
# thousand flooding tests do not fill the memory.
HEAD_BYTES = 32 * 1024
TAIL_BYTES = 96 * 1024

# The number under which what is printed before any test is kept.
BEFORE_THE_FIRST = 0


class BoundedOutput:
    """The beginning and the end of a stream of bytes of any length."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0

    def write(self, data: bytes) -> None:
        """Adds bytes; drops the middle of what has become too much."""
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_size:  # seldom enough that dropping costs nothing a byte
            self._drop()

    def _drop(self) -> None:
        extra = len(self._tail) - self._tail_size
        if extra > 0:
            self._dropped += extra
            del self._tail[:extra]

    def text(self) -> str:
        """What was kept, with a line that says how much was left out."""
        self._drop()
        gap = f"\n... {self._dropped} bytes left out ...\n".encode() if self._dropped else b""
        return (bytes(self._head) + gap + bytes(self._tail)).decode(errors="backslashreplace")


def elide(text: str, most: int) -> str:
    """The text, or its beginning and end where it has more than ``most`` characters."""
    if len(text) <= most:
        return text
    head, tail = most // 4, most - most // 4
    return f"{text[:head]}\n... {len(text) - most} characters left out ...\n{text[-tail:]}"


def marker_line(marker: str, seq: int) -> bytes:
    """What a worker writes on its output pipe when test ``seq`` begins."""
    return f"{marker}{seq:012d}\n".encode()


class OutputSplitter:
    """Takes a worker's output as it comes and gives each test its part."""

    def __init__(self, marker: str) -> None:
        self._marker = marker.encode()
        self._line_size = len(marker_line(marker, 0))
        self._pending = b""
        self._current = BEFORE_THE_FIRST
        self._outputs: dict[int, BoundedOutput] = {}

    def feed(self, data: bytes) -> None:
        """Adds what was read from the pipe; a marker that is not complete yet waits for its rest."""
        data = self._pending + data
        self._pending = b""
        while (at := data.find(self._marker)) >= 0 and len(data) >= at + self._line_size:
            self._keep(data[:at])
            self._current = int(data[at + len(self._marker) : at + self._line_size])
            data = data[at + self._line_size :]
        keep = at if at >= 0 else len(data) - self._partial(data)
        self._keep(data[:keep])
        self._pending = data[keep:]

    def _partial(self, data: bytes) -> int:
        """How many bytes at the end of the data may be the beginning of a marker."""
        at = data.find(self._marker[:1], max(0, len(data) - len(self._marker) + 1))
        while at >= 0 and not self._marker.startswith(data[at:]):
            at = data.find(self._marker[:1], at + 1)
        return len(data) - at if at >= 0 else 0

    def _keep(self, data: bytes) -> None:
        if data:
            self._outputs.setdefault(self._current, BoundedOutput()).write(data)

    def take(self, seq: int) -> str:
        """The output of a test that is over; forgets it."""
        output = self._outputs.pop(seq, None)
        return output.text() if output is not None else ""

    def rest(self, seq: int) -> str:
        """The output of a test whose worker is gone: nothing more will complete a marker."""
        if self._current == seq:
            self._keep(self._pending)
            self._pending = b""
        return self.take(seq)
