"""``count``: how many Python threads of this process could do something while one of them waits."""

from __future__ import annotations

import sys
import threading
from concurrent.futures import thread as executors
from types import FrameType
from typing import Any

# All threads: its length can be read without a lock.
LIVE: dict[int, Any] = threading._active  # type: ignore[attr-defined]  # private, but there in each Python


def count() -> int:
    """The number of threads, without bystanders such as those that the compiler starts."""
    if len(LIVE) == 1:
        return 1
    frames = sys._current_frames()
    found = sum(not _is_bystander(t, frames.get(t.ident or 0)) for t in list(LIVE.values()))
    frames.clear()  # it has this frame too, and what its callers hold would live until the next collection
    return found


def _is_bystander(thread: threading.Thread, frame: FrameType | None) -> bool:
    """Whether the thread is a progress bar's, one of the harness, or an executor's that has nothing to do.

    An executor's thread that has nothing to do is in the executor's own function; while it works, that
    function is further out.
    """
    if type(thread).__module__.partition(".")[0] in ("harness", "tqdm"):
        return True
    return frame is not None and frame.f_code is executors._worker.__code__
