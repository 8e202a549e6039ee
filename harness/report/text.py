"""Formats durations, verdicts and counts for people, and makes text of tests safe to print."""

from __future__ import annotations

import re
from typing import TextIO

from harness.outcomes import Status
from harness.record import TestRecord

VERDICTS = {
    Status.PASSED: "ok",
    Status.SKIPPED: "skip",
    Status.FAILED: "FAIL",
    Status.ERROR: "ERROR",
    Status.CRASHED: "CRASH",
    Status.TIMED_OUT: "TIMEOUT",
    Status.DEADLOCKED: "DEADLOCK",
    Status.ENDED: "ENDED",
    Status.XFAILED: "xfail",
    Status.XPASSED: "XPASS",
}
# A terminal's control sequences (colours, cursor, titles), and control characters but tab and newline.
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def visible(text: str) -> str:
    """The text without anything that could move a terminal's cursor or change its colours.

    Control sequences and carriage returns before a newline are removed; other control characters are written
    as escapes (``\\x07``).
    """
    plain = _ESCAPES.sub("", text.replace("\r\n", "\n"))
    return _CONTROLS.sub(lambda match: f"\\x{ord(match[0]):02x}", plain)


def seconds_text(seconds: float) -> str:
    """A test's duration: ``0.013 s``, ``2.41 s``, ``75.2 s``."""
    digits = 3 if seconds < 1 else 2 if seconds < 10 else 1
    return f"{seconds:.{digits}f} s"


def clock_text(seconds: float) -> str:
    """A run's duration: ``0:07``, ``12:34``, ``1:02:03``."""
    whole = max(0, round(seconds))
    hours, minutes = whole // 3600, whole // 60 % 60
    return f"{hours}:{minutes:02}:{whole % 60:02}" if hours else f"{minutes}:{whole % 60:02}"


def ranks_suffix(world_size: int | None) -> str:
    """What follows the id of a multi-rank test: `` (4 ranks)``; "" for other tests."""
    if not world_size:
        return ""
    return f" ({world_size} rank{'s' if world_size > 1 else ''})"


def tail(text: str, width: int) -> str:
    """The text, cut at its start where it is wider than ``width``, because ids differ at their ends."""
    return text if len(text) <= width else "..." + text[len(text) - max(width - 3, 1) :]


def one_line(text: str, width: int = 200) -> str:
    """The first line that is not blank, cut to ``width``."""
    first = next((line.strip() for line in visible(text).splitlines() if line.strip()), "")
    return first if len(first) <= width else first[: width - 3] + "..."


def why(record: TestRecord) -> str:
    """One line about a test's verdict: its reason, or the last line of its details, or its status."""
    if record.reason:
        return one_line(record.reason)
    lines = [line for line in visible(record.details).splitlines() if line.strip()]
    return one_line(lines[-1]) if lines else record.status.value


def count(number: int, noun: str) -> str:
    """A number with its noun: ``1 test``, ``2 tests``."""
    return f"{number} {noun}" + ("" if number == 1 else "s")


class SafeStream:
    """A text stream whose errors cannot break a run.

    Characters that its encoding lacks are written as escapes (``\\u2713``). When its reader has gone or its
    disk is full, the rest of the text is dropped: the journal has it all.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._gone = False

    @property
    def encoding(self) -> str:
        """The encoding of the wrapped stream."""
        return getattr(self._stream, "encoding", None) or "utf-8"

    def isatty(self) -> bool:
        """Whether the wrapped stream is a terminal; False where it is closed."""
        try:
            return self._stream.isatty()
        except ValueError:  # closed
            return False

    def fileno(self) -> int:
        """The descriptor of the wrapped stream; OSError where it has none."""
        return self._stream.fileno()

    def write(self, text: str) -> int:
        """Writes the text. After an error of the stream, drops this and all later text."""
        if self._gone:
            return len(text)
        safe = text.encode(self.encoding, "backslashreplace").decode(self.encoding, "replace")
        try:
            self._stream.write(safe)
        except (OSError, ValueError):
            self._gone = True
        return len(text)

    def flush(self) -> None:
        """Flushes the stream. After an error of the stream, all later text is dropped."""
        if self._gone:
            return
        try:
            self._stream.flush()
        except (OSError, ValueError):
            self._gone = True
