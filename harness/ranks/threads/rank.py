"""One rank that is a thread: what it has of its own, and where it is."""

from __future__ import annotations

import contextlib
import functools
import sys
import threading
import types
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

from harness.communication.matching import PendingCollective
from harness.outcomes import CollectiveRecord, SubtestOutcome
from harness.ranks.result import RankResult

__unittest = True  # frames that no reader of a failure has a use for

# As many collectives as the ledger of a rank that is a process keeps.
RECORDS = 48
# Frames of a stack that are kept: deeper ones are recursion.
STACK_DEPTH = 200
# The outermost frames of a rank are of these modules, the same for each rank.
_MACHINERY = ("harness.", "unittest.case", "threading", "contextlib")


class RankEnded(SystemExit):
    """Raised in a rank that its test does not wait for any longer. Nobody's fault by itself."""


@dataclass(frozen=True, slots=True)
class ThreadEnded:
    """A rank's thread is at its end."""

    rank: int


@dataclass(slots=True)
class ThreadChannel:
    """What ``_run`` gets as its pipe in a rank that is a thread; see ``processes.channel.RankChannel``."""

    account: RankResult | None = None
    texts: list[str] = field(default_factory=list)
    kept: dict[str, object] = field(default_factory=dict)
    subtest_failed: Callable[[SubtestOutcome], object] = lambda subtest: None

    def record(self, account: RankResult) -> None:
        """Notes how the test went. The last word counts."""
        self.account = account

    def send(self, value: object) -> None:
        """Upstream's way to hand a traceback to the parent."""
        self.texts.append(str(value))

    def close(self) -> None:
        """Part of upstream's pipe; there is nothing to close."""

    def ready(self) -> None:
        """Part of a pooled rank's channel: what was made now stays. Nothing stays in a thread."""


Body = Callable[[int, ThreadChannel], object]


class Home(Protocol):
    """What a rank's thread needs of the ranks that it belongs to; see ``rankthreads.RankThreads``."""

    over: bool

    def live(self, thread: RankThread) -> None:
        """The rank's life, from its first turn until its groups are destroyed."""
        ...

    def left(self, thread: RankThread) -> None:
        """Called last."""
        ...

    def subtest_failed(self, rank: int, subtest: SubtestOutcome) -> None:
        """Called as a sub-test goes wrong."""
        ...


class RankThread(threading.Thread):
    """A rank's thread, a daemon. ``world`` is what ``torch.distributed`` has for it."""

    def __init__(self, home: Home, rank: int) -> None:
        super().__init__(name=f"rank {rank}", daemon=True)
        self.home: Any = home
        self.rank = rank
        self.channel = ThreadChannel(subtest_failed=functools.partial(home.subtest_failed, rank))
        self.world: Any = None
        self.released = threading.Event()
        self.records: deque[CollectiveRecord] = deque(maxlen=RECORDS)
        self.sequence: dict[str, int] = {}
        self.meeting: PendingCollective | None = None  # the threaded collective that it is in
        self.waits = False  # for other ranks: in a collective, a store or the like, or for its turn

    def run(self) -> None:
        """The rank's whole life."""
        with contextlib.suppress(SystemExit):
            try:
                self.home.live(self)
            finally:
                self.home.left(self)

    def next_number(self, key: str) -> int:
        """1 for this rank's first collective of a group, then 2, and so on."""
        number = self.sequence[key] = self.sequence.get(key, 0) + 1
        return number

    def stop_if_over(self) -> None:
        """Raises RankEnded where nobody waits for this rank any longer."""
        if self.home.over:
            raise RankEnded(f"the test of rank {self.rank} is over")

    def stack(self) -> str:
        """Where the thread is now, in faulthandler's form, innermost first; "" where it is nowhere."""
        return stack_of(self.ident or 0)


def current() -> RankThread | None:
    """The rank that this thread is, or None."""
    thread = threading.current_thread()
    return thread if isinstance(thread, RankThread) else None


def stack_of(thread: int, entry: types.CodeType | None = None) -> str:
    """Where the thread of that identity is, in faulthandler's form, innermost first; "" where it is nowhere.

    Frames outside of a call of ``entry`` are left out, and so is the machinery outermost of those inside.
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
