"""``Taps``: what the functions that are wrapped to record calls have in common."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.communication.record.chaos import Chaos
    from harness.communication.record.recorder import Recorder
    from harness.communication.tensor_values.value_recorder import ValueRecorder


class _Seen(threading.local):
    """Whether the calling thread is in a call that is recorded already."""

    now = False


class Taps:
    """What the wrapped functions share: they call the originals only, until ``recorder`` is set."""

    def __init__(self) -> None:
        self.recorder: Recorder | None = None
        self.spare: Recorder | None = None  # made before forks, for a forked rank
        self.chaos: Chaos | None = None  # by which the recorder delays the rank
        self.libraries: dict[str, Any] = {}  # by namespace; torch drops the kernels of one that is not kept
        self.layouts = False  # whether DTensor is wrapped
        self.values: ValueRecorder | None = None  # only where the values of calls are checked
        # What looks at a call, by its token, before it is made, and may raise in its place.
        self.guard: Callable[[int], None] | None = None
        self.seen = _Seen()
        # Whether a call may make others that are seen as well: only then it is noted, for its thread, that
        # it is seen already. What is a thread's own takes long to ask.
        self.nests = False
        # The taps of rank threads, which stand for these as long as a threaded test runs in this process.
        self.of_threads: Taps | None = None

    def active(self) -> Taps:
        """The taps by which a call is recorded now: these, or those of rank threads.

        Asked by what is wrapped once in a process: operators, DDP's reducer, DTensor.
        """
        return self.of_threads or self

    def records_itself(self, group: Any) -> bool:
        """Whether a group records the calls that C++ makes on it, as it does those of Python."""
        return False

    @contextmanager
    def unseen(self) -> Iterator[None]:
        """A region in which no store that the calling thread asks is recorded: it is the harness's.

        Nor are the calls that it makes on groups, if ``nests`` is set.
        """
        before, self.seen.now = self.seen.now, True
        try:
            yield
        finally:
            self.seen.now = before
