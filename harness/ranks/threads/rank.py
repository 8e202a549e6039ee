"""One rank that is a thread: what it has of its own, and where it is."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

from harness.communication.collective_log import ENTRIES
from harness.communication.matching import PendingCollective
from harness.outcomes import CollectiveRecord, SubtestOutcome
from harness.ranks.direct_channel import DirectChannel
from harness.ranks.thread_stack import stack_of

__unittest = True  # frames that no reader of a failure has a use for


class RankEnded(SystemExit):
    """Raised in a rank that its test does not wait for any longer. Nobody's fault by itself."""


@dataclass(frozen=True, slots=True)
class ThreadEnded:
    """A rank's thread is at its end."""

    rank: int


Body = Callable[[int, DirectChannel], object]


class ThreadOwner(Protocol):
    """What a rank's thread needs of the ranks that it belongs to; see ``rank_set.RankThreads``."""

    over: bool
    abandoned: tuple[int, ...]

    def live(self, thread: RankThread) -> None:
        """Lives the rank's life, from its first token until its groups are destroyed."""
        ...

    def left(self, thread: RankThread) -> None:
        """Is called last, when the rank's thread is about to end."""
        ...

    def subtest_failed(self, rank: int, subtest: SubtestOutcome) -> None:
        """Is called as a sub-test goes wrong."""
        ...


class RankThread(threading.Thread):
    """A rank's thread, a daemon. ``world`` is what ``torch.distributed`` has for it."""

    def __init__(self, owner: ThreadOwner, rank: int) -> None:
        super().__init__(name=f"rank {rank}", daemon=True)
        self.owner: Any = owner
        self.rank = rank
        self.channel = DirectChannel(subtest_failed=functools.partial(owner.subtest_failed, rank))
        self.world: Any = None
        self.released = threading.Event()
        self.records: deque[CollectiveRecord] = deque(maxlen=ENTRIES)
        self.sequence: dict[str, int] = {}
        self.pending: PendingCollective | None = None  # the threaded collective that it is in
        self.waits = False  # for other ranks: in a collective, a store or the like, or for the run token

    def run(self) -> None:
        """The rank's whole life."""
        with contextlib.suppress(SystemExit):
            try:
                self.owner.live(self)
            finally:
                self.owner.left(self)

    def next_number(self, key: str) -> int:
        """1 for this rank's first collective of a group, then 2, and so on."""
        number = self.sequence[key] = self.sequence.get(key, 0) + 1
        return number

    def stop_if_over(self) -> None:
        """Raises RankEnded where nobody waits for this rank any longer."""
        if self.owner.over:
            raise RankEnded(f"the test of rank {self.rank} is over")

    def stack(self) -> str:
        """Where the thread is now, in faulthandler's form, innermost first; "" where it is nowhere."""
        return stack_of(self.ident or 0)


def current() -> RankThread | None:
    """The rank that this thread is, or None."""
    thread = threading.current_thread()
    return thread if isinstance(thread, RankThread) else None
