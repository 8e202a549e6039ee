"""Parses stacks that are text (faulthandler dumps, tracebacks), and finds the user's innermost frame.

A rank that hangs can only be asked for its stack by a signal, and faulthandler answers in text.
"""

from __future__ import annotations

import functools
import os
import re
import sysconfig
from collections.abc import Sequence
from dataclasses import dataclass

_FRAME = re.compile(r'^\s*File "(?P<file>[^"]*)", line (?P<line>\d+|\?\?\?),? in (?P<function>.+?)\s*$')
_THREAD = re.compile(
    r"^\s*(?:Current thread|Thread|Stack)\b.*\(most recent call (?P<order>first|last)\)", re.IGNORECASE
)
_HARNESS = os.path.dirname(os.path.abspath(__file__)) + os.sep
_LIBRARIES = (
    *(sysconfig.get_paths()[name] + os.sep for name in ("stdlib", "platstdlib")),
    "<frozen ",
)
# Packages installed anywhere, and torch where it runs from a source checkout.
_LIBRARY_PART = re.compile(
    r"[\\/](?:site-packages|dist-packages)[\\/]"
    r"|[\\/]lib[\\/]python3\.\d+[\\/]"
    r"|[\\/]torch[\\/](?:distributed|autograd|nn|optim|utils|testing|multiprocessing|_\w+)(?:[\\/]|\.py$)"
)


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame of a stack; ``line`` is 0 where the interpreter did not know the line."""

    file: str
    line: int
    function: str

    @property
    def users(self) -> bool:
        """Whether this is the user's code: not the standard library, an installed package or the harness."""
        return is_users(self.file)

    @property
    def harness(self) -> bool:
        """Whether this is a frame of the harness itself."""
        return self.file.startswith(_HARNESS)

    @property
    def place(self) -> str:
        """The frame in short, without the file's folder: ``test_sum.py:20 in test_sum``."""
        return place_text(self.file, self.line, self.function)


def place_text(file: str, line: int, function: str) -> str:
    """A place in short, as ``Frame.place``."""
    return f"{file.rpartition(os.sep)[2]}:{line} in {function}"


@functools.lru_cache(maxsize=8192)
def is_users(file: str) -> bool:
    """Whether the code of a file is the user's; found out once for each, also for ranks forked afterwards."""
    if file.startswith((_HARNESS, *_LIBRARIES)):
        return False
    return not _LIBRARY_PART.search(file)


def main_stack(text: str) -> tuple[Frame, ...]:
    """The main thread's frames, innermost first; empty where the text holds none.

    CPython's faulthandler writes the newest thread first, hence the main thread is the last block
    (python/cpython#149085, python/cpython#149106).
    """
    blocks = _blocks(text)
    return blocks[-1] if blocks else ()


def traceback_frames(text: str) -> tuple[Frame, ...]:
    """The frames of a formatted traceback's last part (the exception that was raised), innermost first."""
    part = text[text.rfind("Traceback (most recent call last)") :] if "Traceback (" in text else text
    return tuple(reversed(_frames(part.splitlines())))


def users_frame(frames: Sequence[Frame]) -> Frame | None:
    """The innermost frame of the user's own code, or None."""
    return next((f for f in frames if f.users), None)


def through_users(frames: Sequence[Frame]) -> tuple[Frame, ...]:
    """The frames from the innermost one to the outermost of the user's code, without those of the harness.

    All frames where none is the user's.
    """
    last = max((i for i, f in enumerate(frames) if f.users), default=None)
    return tuple(frames) if last is None else tuple(f for f in frames[: last + 1] if not f.harness)


def _blocks(text: str) -> list[tuple[Frame, ...]]:
    """The frames of each thread, innermost first, in the order of the text, except threads without frames."""
    blocks: list[tuple[Frame, ...]] = []
    lines: list[str] = []
    innermost_first = True
    for line in text.splitlines():
        header = _THREAD.match(line)
        if header:
            blocks.append(_ordered(lines, innermost_first))
            lines, innermost_first = [], header["order"].lower() == "first"
        else:
            lines.append(line)
    blocks.append(_ordered(lines, innermost_first))
    return [b for b in blocks if b]


def _ordered(lines: Sequence[str], innermost_first: bool) -> tuple[Frame, ...]:
    frames = _frames(lines)
    return tuple(frames) if innermost_first else tuple(reversed(frames))


def _frames(lines: Sequence[str]) -> list[Frame]:
    found = []
    for line in lines:
        match = _FRAME.match(line)
        if match:
            number = int(match["line"]) if match["line"].isdigit() else 0
            found.append(Frame(match["file"], number, match["function"]))
    return found
