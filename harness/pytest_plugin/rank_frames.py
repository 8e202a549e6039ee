"""Where a rank failed, as a traceback that a debugger in pytest's process can show.

The rank has ended, and its frames with it. What is left is the text of its traceback: files, lines and names
of functions. A debugger shows the source there and goes up and down; the frames have no variables.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from types import TracebackType

import _pytest

from harness.outcomes import TestOutcome

# A frame in the text of a traceback; those of members of a group are indented and left out.
_FRAME = re.compile(r'^  File "(.+)", line (\d+), in (.+)$', re.M)
# The directory of pytest's own modules.
_PYTEST = f"{Path(_pytest.__file__).parent}{os.sep}"
_BEGIN = "Traceback (most recent call last):\n"


def of_cause(outcome: TestOutcome) -> TracebackType | None:
    """The frames in which the rank that failed first did so; None where it raised nothing."""
    errors = [rank.error for rank in outcome.ranks if rank.rank == outcome.root_cause]
    return of_text(errors[0].traceback) if errors and errors[0] is not None else None


def of_text(text: str) -> TracebackType | None:
    """The frames of the last exception in the text of a traceback, outermost first; None without any.

    It ends where ``pytest.fail`` and the like were called.
    """
    frames: list[tuple[str, str, str]] = _FRAME.findall(text.rpartition(_BEGIN)[2])
    while frames and frames[-1][0].startswith(_PYTEST):
        frames.pop()
    trace: TracebackType | None = None
    for file, line, function in reversed(frames):
        trace = _entry(file, int(line), function, trace)
    return trace


def _entry(file: str, line: int, function: str, inner: TracebackType | None) -> TracebackType:
    """One entry of a traceback, with a frame of a stand-in for the function."""
    code = compile("\n" * (line - 1) + "raise LookupError", file, "exec").replace(co_name=function)
    try:
        exec(code, {"__name__": "the rank has ended"})  # only raises, at that line of that file
    except LookupError as error:
        here = error.__traceback__.tb_next if error.__traceback__ is not None else None
    assert here is not None
    return TracebackType(inner, here.tb_frame, here.tb_lasti, line)
