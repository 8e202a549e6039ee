"""``DeadlockWatch``: finds ranks of a running test that can never go on, from their logs and from /proc.

The proof is ``wait_graph.prove``. What it needs besides the logs is that no rank of those that wait could
move and has not been given a processor: between two looks no log has changed, and at both every thread of
these ranks slept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.communication import call_log
from harness.communication.wait_graph import SERVING, RankView, Waiting, prove
from harness.system import posix

# Seconds between two looks. A look costs microseconds a rank; a deadlock is known after three of them.
LOOK_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class WatchedRank:
    """One rank: the descriptor of its log, its process, and whether it has reported or is gone."""

    rank: int
    log: int
    pid: int
    settled: bool


class DeadlockWatch:
    """Looks at the ranks of one test every ``LOOK_EVERY_S`` seconds."""

    def __init__(self) -> None:
        self._heads: tuple[object, ...] = ()
        self._proven: tuple[int, ...] = ()

    def look(self, ranks: Sequence[WatchedRank], until_s: float) -> tuple[Waiting, ...]:
        """The ranks that can never go on, where two looks in a row prove it; () else.

        ``until_s`` is the test's deadline on the monotonic clock.
        """
        heads = tuple((r.settled, call_log.read_head(r.log)) for r in ranks)
        still, self._heads = heads == self._heads, heads
        if not still:
            self._proven = ()
            return ()
        awake = {r.rank for r in ranks if not r.settled and posix.could_run(r.pid, serving=SERVING)}
        views = [self._view(r, can_move=r.rank in awake) for r in ranks]
        stuck = prove(views, until_s)
        found = tuple(waiting.rank for waiting in stuck)
        twice, self._proven = found == self._proven, found
        return stuck if twice else ()

    def _view(self, rank: WatchedRank, *, can_move: bool) -> RankView:
        helped = not rank.settled and posix.has_children(rank.pid)
        calls = call_log.read(rank.log)
        return RankView(rank.rank, calls, settled=rank.settled, can_move=can_move, helped=helped)
