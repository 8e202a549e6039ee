"""Formats the stack of a thread of this process as faulthandler does."""

from __future__ import annotations

import sys
import types

# The most frames of a stack that are kept: deeper stacks are recursion.
STACK_DEPTH = 200
# Modules of the outermost frames of a rank, which are the same in every rank.
_MACHINERY = ("harness.", "unittest.case", "threading", "contextlib")


def stack_of(thread: int, entry: types.CodeType | None = None) -> str:
    """The current stack of the thread with that identity, innermost frame first; "" where it has no frame.

    Frames outside of a call of ``entry`` are left out, and so are the harness's and unittest's outermost
    frames inside that call.
    """
    frame = sys._current_frames().get(thread)
    lines: list[tuple[str, str]] = []
    while frame is not None and frame.f_code is not entry and len(lines) < STACK_DEPTH:
        code, module = frame.f_code, str(frame.f_globals.get("__name__"))
        lines.append((module, f'  File "{code.co_filename}", line {frame.f_lineno} in {code.co_name}'))
        frame = frame.f_back
    while len(lines) > 1 and lines[-1][0].startswith(_MACHINERY):
        lines.pop()
    header = f"Thread 0x{thread:016x} (most recent call first):"
    return "\n".join([header, *(line for _, line in lines)]) if lines else ""
