"""``Screen``: shows on this process's standard output what ranks print, as they print it.

By lines, each with its rank in front, or the bytes as they come (``HARNESS_RANK_OUTPUT=stream`` and ``raw``).
"""

from __future__ import annotations

import os
import sys
from typing import Protocol

# A line is shown when it is this long, whether or not it ends: binary output may have no line end at all.
LONGEST_LINE = 64 * 1024
# Returns to the beginning of a terminal's row and clears it; ends colours and the like.
_CLEAR_ROW = b"\r\x1b[K"
_PLAIN = b"\x1b[0m"


class Shown(Protocol):
    """The output of one rank as it is shown."""

    def feed(self, data: bytes) -> None:
        """Shows the bytes that the rank printed next."""
        ...

    def close(self) -> None:
        """Shows what is left; the rank prints no more."""
        ...


class Screen:
    """Standard output, which the ranks of one launch share.

    A terminal's last row may show a line that has not ended yet, a progress bar for example, until something
    else is written.
    """

    def __init__(self) -> None:
        self._unfinished = False

    def shown(self, rank: int, mode: str) -> Shown | None:
        """How the output of a rank is shown; ``mode`` is one of ``settings.RANK_OUTPUTS``, "capture" None."""
        if mode == "capture":
            return None
        return RankLines(rank, self) if mode == "stream" else RankBytes(self)

    def write(self, data: bytes) -> None:
        """Writes bytes, below the text layer of standard output where there is one."""
        if self._unfinished:
            self._unfinished = False
            data = _CLEAR_ROW + data
        _write_out(data)

    def show_unfinished(self, line: bytes) -> None:
        """Shows a line that has not ended in a terminal's last row, cut to its width; nothing elsewhere."""
        columns = _terminal_columns()
        if not columns:
            return
        cut = line.decode("utf-8", errors="replace")[: columns - 1].encode()
        _write_out(_CLEAR_ROW + cut + (_PLAIN if b"\x1b" in line else b""))
        self._unfinished = True


class RankLines:
    """Shows a rank's output by lines with the rank in front, so that lines of several ranks never mix.

    A line that was written over itself with carriage returns is shown as a terminal would show it at last.
    """

    def __init__(self, rank: int, screen: Screen) -> None:
        self._prefix = f"[rank {rank}] ".encode()
        self._screen = screen
        self._line = bytearray()

    def feed(self, data: bytes) -> None:
        """Shows the lines that end in ``data``, and on a terminal what the rank has of the next."""
        self._line += data
        if b"\n" in data or len(self._line) >= LONGEST_LINE:
            *lines, rest = self._line.split(b"\n")
            if not lines or len(rest) >= LONGEST_LINE:
                lines.append(rest)
                rest = bytearray()
            self._screen.write(b"".join(self._prefix + _visible(line) + b"\n" for line in lines))
            self._line = rest
        if self._line:
            if b"\r" in data:  # what was written over is not kept
                self._line = _visible(self._line) + self._line[len(self._line.rstrip(b"\r")) :][:1]
            self._screen.show_unfinished(self._prefix + _visible(self._line))

    def close(self) -> None:
        """Ends the last line."""
        if self._line:
            self.feed(b"\n")


class RankBytes:
    """Shows a rank's output as it comes."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen

    def feed(self, data: bytes) -> None:
        """Shows the bytes."""
        self._screen.write(data)

    def close(self) -> None:
        """Does nothing: all has been shown."""


def _visible(line: bytearray) -> bytearray:
    """What a terminal shows of a line: what follows the last carriage return that something follows."""
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def _terminal_columns() -> int:
    """The width of the terminal that standard output is; 0 where it is none."""
    try:
        return os.get_terminal_size(sys.stdout.fileno()).columns
    except (OSError, ValueError, AttributeError):  # no terminal; a closed stream; None or not a file
        return 0


def _write_out(data: bytes) -> None:
    stream = sys.stdout
    if stream is None:  # this process was started without standard output
        return
    raw = getattr(stream, "buffer", None)
    if raw is None:
        stream.write(data.decode("utf-8", errors="backslashreplace"))
    else:
        stream.flush()
        raw.write(data)
    stream.flush()
