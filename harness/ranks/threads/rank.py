"""``RankThread``: one rank that is a thread, with its channel, process groups, collectives and stack."""

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

__unittest = True  # unittest leaves this module's frames out of a failure's traceback


class RankEnded(SystemExit):
    """Raised in a rank whose test is already over, to end its thread; it is no failure of the rank."""


@dataclass(frozen=True, slots=True)
class ThreadEnded:
    """Event for the supervisor: the rank's thread is about to end."""

    rank: int


Body = Callable[[int, DirectChannel], object]


class ThreadOwner(Protocol):
    """What a rank's thread needs of the rank set that it belongs to; see ``rank_set.RankThreads``."""

    over: bool
    abandoned: tuple[int, ...]

    def run_rank(self, thread: RankThread) -> None:
        """Runs the rank, from its first acquisition of the run token until its groups are destroyed."""
        ...

    def on_thread_end(self, thread: RankThread) -> None:
        """Called last, when the rank's thread is about to end."""
        ...

    def subtest_failed(self, rank: int, subtest: SubtestOutcome) -> None:
        """Called when a sub-test fails."""
        ...


class RankThread(threading.Thread):
    """The daemon thread of one rank. ``world`` is the rank's state of ``torch.distributed``."""

    def __init__(self, owner: ThreadOwner, rank: int) -> None:
        super().__init__(name=f"rank {rank}", daemon=True)
        self.owner: Any = owner
        self.rank = rank
        self.channel = DirectChannel(subtest_failed=functools.partial(owner.subtest_failed, rank))
        self.world: Any = None
        self.released = threading.Event()
        self.records: deque[CollectiveRecord] = deque(maxlen=ENTRIES)
        self.sequence: dict[str, int] = {}
        self.pending: PendingCollective | None = None  # the threaded collective that the rank is in
        self.waits = False  # whether it waits for other ranks (collective, store) or for the run token

    def run(self) -> None:
        """Runs the rank and reports the thread's end; SystemExit ends the thread silently."""
        with contextlib.suppress(SystemExit):
            try:
                self.owner.run_rank(self)
            finally:
                self.owner.on_thread_end(self)

    def next_number(self, key: str) -> int:
        """The number of this rank's next collective of a group: 1 for the first, then 2, and so on."""
        number = self.sequence[key] = self.sequence.get(key, 0) + 1
        return number

    def stop_if_over(self) -> None:
        """Raises RankEnded where the test is over."""
        if self.owner.over:
            raise RankEnded(f"the test of rank {self.rank} is over")

    def stack(self) -> str:
        """The thread's stack in faulthandler's form, innermost frame first; "" where it has none."""
        return stack_of(self.ident or 0)


def current() -> RankThread | None:
    """The rank whose thread is the calling one, or None."""
    thread = threading.current_thread()
    return thread if isinstance(thread, RankThread) else None
