"""``ThreadDeadlockWatch``: finds rank threads of a running test that can never go on, from their logs.

The proof is ``wait_graph.prove``, as for ranks that are processes. What it needs besides the logs is that no
rank of those that wait could move: between two looks no log has changed, no rank has got the run token, and
at both each of these threads slept.
"""

from __future__ import annotations

import mmap
from collections.abc import Sequence
from dataclasses import dataclass

from harness.communication import call_log
from harness.communication.analysis.wait_graph import RankView, prove
from harness.system import posix


@dataclass(frozen=True, slots=True)
class WatchedThread:
    """One rank: its log, the system's number of its thread, and whether it has reported or is gone.

    ``ticks`` is how much processor time the thread had used when it was seen asleep, None where it was not,
    or where it waits for the run token alone.
    """

    rank: int
    log: mmap.mmap
    native_id: int
    settled: bool
    ticks: int | None


class ThreadDeadlockWatch:
    """Looks at the rank threads of one test, each time that nothing has been heard of them for a while."""

    def __init__(self) -> None:
        self._seen: object = None

    def look(self, ranks: Sequence[WatchedThread], until_s: float) -> tuple[int, ...]:
        """The ranks that can never go on, where two looks in a row found the same; () else.

        ``until_s`` is the test's deadline on the monotonic clock.
        """
        seen = tuple((r.settled, r.ticks, call_log.read_head(r.log)) for r in ranks)
        still, self._seen = seen == self._seen, seen
        if not still or all(r.ticks is None for r in ranks if not r.settled):
            return ()
        return tuple(waiting.rank for waiting in prove([_view(r) for r in ranks], until_s))


def _view(rank: WatchedThread) -> RankView:
    return RankView(
        rank.rank,
        call_log.read(rank.log),
        settled=rank.settled,
        can_move=rank.ticks is None,
        helped=not rank.settled and posix.has_children(rank.native_id),
    )
